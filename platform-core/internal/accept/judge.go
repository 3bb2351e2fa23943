// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Verdict is what is to be said about a change before it is stored.
type Verdict struct {
	// Refused is what the change breaks; none when it may be stored.
	Refused []*render.Refusal
	// Warnings are what deserves a word and keeps nobody from anything.
	Warnings []string
}

// Judge decides about an Application that is about to be created, or changed from old, which is nil at creation. A change is refused
// for what it breaks itself: what was wrong before may stay so while something else is edited, and an object that is on its way out,
// or whose spec is as it was, is never held up.
func Judge(app, old *platformv1.Application, facts func(*platformv1.Application) Facts) Verdict {
	if !app.DeletionTimestamp.IsZero() || old != nil && equality.Semantic.DeepEqual(app.Spec, old.Spec) {
		return Verdict{}
	}
	refused, warnings := problems(app, facts(app))
	if old == nil || len(refused) == 0 {
		return Verdict{Refused: refused, Warnings: warnings}
	}
	before, _ := problems(old, facts(old))
	verdict := Verdict{Warnings: warnings}
	for _, refusal := range refused {
		same := func(r *render.Refusal) bool { return *r == *refusal }
		if slices.ContainsFunc(before, same) {
			verdict.Warnings = append(verdict.Warnings, Still(refusal.Message))
			continue
		}
		verdict.Refused = append(verdict.Refused, refusal)
	}
	return verdict
}

// problems returns what has to be mended in the object, and what holds it up.
func problems(app *platformv1.Application, f Facts) ([]*render.Refusal, []string) {
	if r := Plugin(app, f.State); r != nil {
		return nil, []string{held(r)}
	}
	wanted, refusals := Check(app, f)
	if len(refusals) > 0 {
		return refusals, nil
	}
	if refusals = rendered(app, f, wanted); len(refusals) > 0 {
		return refusals, nil
	}
	var warnings []string
	if r := Class(f, wanted); r != nil {
		warnings = append(warnings, held(r))
	}
	return nil, warnings
}

// Still is the warning about what was refused before and keeps a change from nothing.
func Still(refusal string) string { return "it is still refused: " + refusal }

func held(r *render.Refusal) string { return fmt.Sprintf("it will wait: %s", r.Message) }

// rendered looks at what would be made: rules between parameters, and volumes that would have to shrink.
func rendered(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) []*render.Refusal {
	owner := render.Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: f.State.Bundle.Manifest.Domain}
	var refusals []*render.Refusal
	for i := range wanted {
		output, refusal := render.Component(f.State.Bundle, f.Settings, owner, &wanted[i])
		if refusal == nil {
			refusal = shrinks(f, output)
		}
		if refusal != nil {
			refusals = append(refusals, refusal)
		}
	}
	return refusals
}

// shrinks returns the first claim of a component that would have to.
func shrinks(f Facts, output *render.ComponentOutput) *render.Refusal {
	for i := range output.WorkloadSets {
		set := &output.WorkloadSets[i]
		for _, ordinal := range platformv1.OrdinalsOf(set.Spec.Replicas, set.Spec.ExcludedOrdinals) {
			for _, volume := range set.Spec.Volumes {
				claim := f.Claims[platformv1.ClaimNameFor(volume.Name, platformv1.PodNameFor(set.Name, ordinal))]
				if claim == nil {
					continue
				}
				if refusal := Shrink(claim, volume.Size); refusal != nil {
					return refusal
				}
			}
		}
	}
	return nil
}
