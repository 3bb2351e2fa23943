// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"
	"slices"
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

// applyComponent applies a Component. Replicas, resources and parameters that somebody else gave it go up to the object
// that declares the Application, from where they come down again; every other edit, and what cannot be had, is taken
// back.
func (c *Controller) applyComponent(ctx context.Context, app *platformv1.Application, f *facts,
	wanted *platformv1.Component) (apply.Change, outcome.Outcome) {
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
		change, err := c.apply.ApplyTo(ctx, live, wanted)
		return change, apply.Outcome(err)
	}
	found.Have(isHad(&wanted.Spec))
	why := fmt.Sprintf("it follows from %s: change that", outermost.NameOf(app))
	if values := valuesIn(found.Edits, &wanted.Spec); len(values) > 0 {
		change, refusal, err := c.editor.Carry(ctx, app, &wanted.Spec,
			outermost.Edited{Values: values, At: found.At(), Behind: found.Behind})
		switch {
		case err != nil:
			return apply.Unchanged, outcome.Failed(err)
		case refusal == "":
			c.editor.Tell(c.events, live, change, found.By())
			return apply.Unchanged, outcome.Waiting(platformv1.ReasonProgressing,
				fmt.Sprintf("%s takes up what was edited in Component %s", outermost.NameOf(app), live.Name))
		}
		why = refusal
	}
	change, err := c.reverter.Revert(ctx, live, wanted, found, why)
	return change, apply.Outcome(err)
}

// valuesIn are those of edits that can be declared: none of a set that there is not.
func valuesIn(found []edits.Edit, spec *platformv1.ComponentSpec) []outermost.Value {
	var values []outermost.Value
	for _, edit := range found {
		if value, can := valueIn(edit, spec); can {
			values = append(values, value)
		}
	}
	return values
}

// isHad says of an edit whether a Component gets its value from another place of its spec: one of a set is declared for
// the component where that has no other.
func isHad(spec *platformv1.ComponentSpec) func(edits.Edit) bool {
	return func(edit edits.Edit) bool {
		value, can := valueIn(edit, spec)
		return can && value.In(spec)
	}
}

// valueIn is what an edit says of a component; false for one that cannot be declared.
func valueIn(edit edits.Edit, spec *platformv1.ComponentSpec) (value outermost.Value, can bool) {
	value, can = outermost.ValueOf(edit)
	return value, can && value.Known(spec)
}

// adopted is what the Application declares by now because somebody edited it in a Component, which has it already.
type adopted struct {
	difference opsflow.Difference
	// where it was edited, and by whom.
	where string
}

func adoptedIn(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) []adopted {
	var all []adopted
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
				all = append(all, adopted{opsflow.Difference{Field: value.Declared(app, &wanted[i]), After: edit.Is},
					fmt.Sprintf("edited in Component %s by %s", live.Name, edit.Manager)})
			}
		}
	}
	return all
}

// changed says in words what is different, and what was adopted and is in no difference for that. What that was before,
// nobody knows any more.
func (c *Controller) changed(app *platformv1.Application, differences []opsflow.Difference, others []adopted) []string {
	words := c.words(app, differences)
	for _, other := range others {
		if slices.ContainsFunc(differences,
			func(d opsflow.Difference) bool { return d.Field == opsflow.Plain(other.difference.Field) }) {
			continue
		}
		said := c.words(app, []opsflow.Difference{other.difference})[0]
		words = append(words, fmt.Sprintf("%s, %s", strings.Replace(opsflow.Plain(said), ": none → ", ": ", 1), other.where))
	}
	return words
}
