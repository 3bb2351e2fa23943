// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// spareRecheck is how soon to look again whether an Application asks for what its component does: nothing tells of it.
const spareRecheck = 10 * time.Second

// loss is what a set that is there would lose by what its component asks.
type loss struct {
	set *platformv1.WorkloadSet
	// gone says that the set goes, and stopped that all of its pods do.
	gone, stopped bool
	// ordinals of the pods that go.
	ordinals []int32
}

// spare waits where a component asks for the end of sets or pods that its Application declares. Then somebody edited
// the component, which is declared or taken back before it takes effect, or a newer Application has yet to come down:
// what is lost would not come back with it.
func (c *Controller) spare(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	losses := lossesOf(f, output)
	if len(losses) == 0 {
		return outcome.Done()
	}
	wait := func(format string, args ...any) outcome.Outcome {
		return outcome.WaitingFor(spareRecheck, platformv1.ReasonProgressing, fmt.Sprintf(format, args...))
	}
	app := &platformv1.Application{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: component.Namespace, Name: component.Spec.Application}, app)
	switch {
	case apierrors.IsNotFound(err):
		return wait("%s is kept: Application %q, which would say whether it is to go, is not there", losses[0],
			component.Spec.Application)
	case err != nil:
		return outcome.Failed(err)
	}
	declared, refusal := c.editor.Component(app, component.Spec.Component)
	if refusal != "" {
		return wait("%s is kept until Application %q says what there is to be: %s", losses[0], app.Name, refusal)
	}
	for _, l := range losses {
		if l.isDeclared(app, declared) {
			return wait("%s is kept: Application %q declares it, and what was edited here is declared there or taken back first",
				l, app.Name)
		}
	}
	return outcome.Done()
}

// lossesOf are those of the sets that are there, in the order of their names.
func lossesOf(f *facts, output *render.ComponentOutput) []loss {
	var losses []loss
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		live := f.sets[name]
		if live.DeletionTimestamp != nil {
			continue
		}
		l := loss{set: live}
		i := slices.IndexFunc(output.WorkloadSets, func(set render.WorkloadSetOutput) bool { return set.Name == name })
		if l.gone = i < 0; !l.gone {
			wanted := &output.WorkloadSets[i].Spec
			stay := wanted.Ordinals()
			l.stopped = live.Spec.IsRunning() && !wanted.IsRunning()
			l.ordinals = slices.DeleteFunc(live.Spec.Ordinals(),
				func(ordinal int32) bool { return slices.Contains(stay, ordinal) })
		}
		if l.gone || l.stopped || len(l.ordinals) > 0 {
			losses = append(losses, l)
		}
	}
	return losses
}

// isDeclared says whether an Application asks for what would be lost. declared is the component as it is made from
// that.
func (l loss) isDeclared(app *platformv1.Application, declared *platformv1.ComponentSpec) bool {
	i := slices.IndexFunc(declared.Sets, func(set platformv1.ComponentSet) bool { return set.Name == l.set.Spec.Set })
	if i < 0 {
		return false
	}
	set := &declared.Sets[i]
	stay := platformv1.OrdinalsOf(declared.ReplicasOf(set), set.ExcludedOrdinals)
	return l.gone || l.stopped && app.Spec.IsRunning() ||
		slices.ContainsFunc(l.ordinals, func(ordinal int32) bool { return slices.Contains(stay, ordinal) })
}

// String names what would be lost for a person.
func (l loss) String() string {
	switch {
	case l.gone:
		return fmt.Sprintf("set %q", l.set.Spec.Set)
	case l.stopped:
		return fmt.Sprintf("what runs of set %q", l.set.Spec.Set)
	}
	return list(podNames(l.set.Name, l.ordinals))
}
