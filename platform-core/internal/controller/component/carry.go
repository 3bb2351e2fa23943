// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Fields of a set whose edits are more than that.
const (
	replicasEdit = "spec.replicas"
	templateEdit = "spec.template"
)

// leftToOthers are fields of a set that somebody else decides, whoever that is, with all that is below them.
var leftToOthers = []string{
	// Which volumes the pods have: the Operation that restores data says so.
	"spec.data",
}

// edited is what others did to a set, and why that is taken back.
type edited struct {
	found edits.Found
	why   string
}

// carry takes replicas and resources that somebody else gave a WorkloadSet, an autoscaler for example, up to the object
// that declares the Application, from where they come down again. Done means that there is nothing to carry; every
// other edit, and what cannot be had, is taken back by act.
func (c *Controller) carry(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	f.edited = map[string]edited{}
	for _, rendered := range output.WorkloadSets {
		live := f.sets[rendered.Name]
		if live == nil || live.DeletionTimestamp != nil {
			continue
		}
		wanted := workloadSet(component, rendered)
		if err := controllerutil.SetControllerReference(component, wanted, c.client.Scheme()); err != nil {
			return outcome.Failed(err)
		}
		found, err := c.reverter.Observe(live, wanted, leftAlone(component), without(wanted)...)
		if err != nil {
			return outcome.Failed(err)
		}
		if !found.Any() {
			continue
		}
		if o := c.carrySet(ctx, component, f, live, found); o.Kind() != outcome.KindDone {
			return o
		}
	}
	return outcome.Done()
}

func (c *Controller) carrySet(ctx context.Context, component *platformv1.Component, f *facts,
	live *platformv1.WorkloadSet, found edits.Found) outcome.Outcome {
	app := &platformv1.Application{}
	key := client.ObjectKey{Namespace: component.Namespace, Name: component.Spec.Application}
	if err := c.client.Get(ctx, key, app); err != nil {
		// Without its Application the component is about to go, and everything with it.
		return outcome.Failed(client.IgnoreNotFound(err))
	}
	declared, _ := f.state.Bundle.Component(component.Spec.Component)
	values, found, partly := split(found, live, component, app, declared.Container)
	why := fmt.Sprintf("it follows from %s: change that", outermost.NameOf(app))
	if len(values) > 0 {
		// That its autoscaler was taken away is no other number of pods.
		behind := found.Behind && !isReleased(live, component)
		change, refusal, err := c.editor.Carry(ctx, app, &component.Spec,
			outermost.Edited{Values: values, At: found.At(), Behind: behind})
		switch {
		case err != nil:
			return outcome.Failed(err)
		case refusal == "":
			c.editor.Tell(c.events, live, change, found.By())
			if len(change.Changed) > 0 && len(partly.Edits) > 0 {
				c.reverter.Tell(live, partly, "but for the resources of the middleware, "+why)
			}
			return outcome.Waiting(platformv1.ReasonProgressing,
				fmt.Sprintf("%s takes up what was edited in WorkloadSet %s", outermost.NameOf(app), live.Name))
		}
		why = refusal
	}
	f.edited[live.Name] = edited{found, why}
	return outcome.Done()
}

// split returns what of the edits can be declared, and the edits; those that come to nothing are told as adopted.
// partly are those that have something else in them, which is lost without a trace once what can be declared has come
// down.
func split(found edits.Found, live *platformv1.WorkloadSet, component *platformv1.Component,
	app *platformv1.Application, container string) (values []outermost.Value, rest, partly edits.Found) {
	rest = edits.Found{Adopted: found.Adopted, Shared: found.Shared, Behind: found.Behind}
	for _, edit := range found.Edits {
		var said []outermost.Value
		nothing := false
		switch edit.Field() {
		case replicasEdit:
			nothing = isReleased(live, component) && namesReplicas(&app.Spec, component.Spec.Component, live.Spec.Set)
			said = []outermost.Value{outermost.Replicas(live.Spec.Set, live.Spec.Replicas)}
		case templateEdit:
			var others bool
			said, others = resourcesIn(edit, live.Spec.Set, container, &component.Spec)
			switch {
			case found.Behind:
				// What else is not as wanted, the engine itself may have yet to write: neither is it declared, nor told of as an
				// edit.
				nothing, said = len(said) == 0, nil
			case len(said) > 0 && others:
				partly.Edits = append(partly.Edits, edit)
			default:
				nothing = len(said) == 0 && !others
			}
		}
		if nothing {
			rest.Adopted = append(rest.Adopted, edit)
			continue
		}
		rest.Edits = append(rest.Edits, edit)
		values = append(values, said...)
	}
	return values, rest, partly
}

// resourcesIn returns the resources that an edited pod template gives the middleware and the component has otherwise.
// others says whether anything else in it is not as wanted.
func resourcesIn(edit edits.Edit, set, container string, spec *platformv1.ComponentSpec) (values []outermost.Value,
	others bool) {
	wanted, _ := edit.Wanted.(map[string]any)
	is, _ := edit.Is.(map[string]any)
	for _, difference := range opsflow.Compare(plain(wanted), plain(is)) {
		value, can := outermost.ResourceOf(set, container, difference)
		switch {
		case !can:
			others = true
		case !value.In(spec):
			values = append(values, value)
		}
	}
	return values, others
}

// plain has the numbers of an object as they are read from JSON.
func plain(object map[string]any) map[string]any {
	read := map[string]any{}
	data, err := json.Marshal(object)
	if err != nil || json.Unmarshal(data, &read) != nil {
		return object
	}
	return read
}

// leftAlone says which edits are somebody else's to make: with autoscaling the number of pods is the autoscaler's.
func leftAlone(component *platformv1.Component) func(edits.Edit) bool {
	fields := leftToOthers
	if component.Spec.Autoscaling != nil {
		fields = append(slices.Clone(fields), replicasEdit)
	}
	return func(edit edits.Edit) bool { return edit.Within(fields...) }
}

// without is the field of a set that is not applied.
func without(set *platformv1.WorkloadSet) []string {
	if set.Spec.Scaling == platformv1.SetScalingAuto {
		return replicasField()
	}
	return nil
}

// applySet applies a set as it is wanted, whatever others made of it.
func (c *Controller) applySet(ctx context.Context, component *platformv1.Component, f *facts,
	set *platformv1.WorkloadSet) (apply.Change, error) {
	live := f.sets[set.Name]
	of, is := f.edited[set.Name]
	if !is || set.Spec.Scaling != live.Spec.Scaling && set.Spec.Scaling == platformv1.SetScalingAuto {
		return c.applyWanted(ctx, component, f, set)
	}
	if err := controllerutil.SetControllerReference(component, set, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.reverter.Revert(ctx, live, set, of.found, of.why, without(set)...)
}
