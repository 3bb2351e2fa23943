// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// none is left to others of a Component.
func none(edits.Edit) bool { return false }

// applyComponent applies a Component. Replicas, resources and parameters that somebody else gave it go up to the object that declares the
// Application, from where they come down again; every other edit, and what cannot be had, is taken back.
func (c *Controller) applyComponent(ctx context.Context, app *platformv1.Application, f *facts, wanted *platformv1.Component) (apply.Change, outcome.Outcome) {
	live := f.components[wanted.Spec.Component]
	if err := controllerutil.SetControllerReference(app, wanted, c.client.Scheme()); err != nil {
		return apply.Unchanged, outcome.Failed(err)
	}
	if live == nil || live.DeletionTimestamp != nil {
		change, err := c.apply.Apply(ctx, wanted)
		return change, apply.Outcome(err)
	}
	found, err := c.reverter.Observe(live, wanted, none)
	if err != nil {
		return apply.Unchanged, outcome.Failed(err)
	}
	if !found.Any() {
		change, err := c.apply.Apply(ctx, wanted)
		return change, apply.Outcome(err)
	}
	why := fmt.Sprintf("it follows from %s: change that", outermost.NameOf(app))
	if values := valuesIn(found.Edits); len(values) > 0 {
		change, refusal, err := c.editor.Carry(ctx, app, &wanted.Spec, values)
		switch {
		case err != nil:
			return apply.Unchanged, outcome.Failed(err)
		case refusal == "":
			c.editor.Tell(c.events, live, change, found.By())
			return apply.Unchanged, outcome.Waiting(platformv1.ReasonProgressing, fmt.Sprintf("%s takes up what was edited in Component %s", outermost.NameOf(app), live.Name))
		}
		why = refusal
	}
	change, err := c.reverter.Revert(ctx, live, wanted, found, why)
	return change, apply.Outcome(err)
}

// valuesIn are those of edits that can be declared.
func valuesIn(found []edits.Edit) []outermost.Value {
	var values []outermost.Value
	for _, edit := range found {
		if value, can := outermost.ValueOf(edit); can {
			values = append(values, value)
		}
	}
	return values
}

// adopted says in words what the Application declares by now because somebody edited it in a Component, which has it already.
func (c *Controller) adopted(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) []string {
	var words []string
	for i := range wanted {
		live := f.components[wanted[i].Component]
		if live == nil {
			continue
		}
		found, err := edits.In(live, &platformv1.Component{Spec: wanted[i]}, owner, none)
		if err != nil {
			// Whoever applies the Component says so.
			continue
		}
		for _, edit := range found.Adopted {
			if value, can := outermost.ValueOf(edit); can {
				difference := opsflow.Difference{Field: value.Declared(app, &wanted[i]), After: edit.Is}
				said := c.words(app, []opsflow.Difference{difference})[0]
				words = append(words, fmt.Sprintf("%s, edited in Component %s by %s", strings.Replace(said, ": none → ", ": ", 1), live.Name, edit.Manager))
			}
		}
	}
	return words
}
