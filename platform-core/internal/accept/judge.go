// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// And is the verdict about one thing together with that about another.
func (v Verdict) And(other Verdict) Verdict {
	return Verdict{Refused: append(v.Refused, other.Refused...), Warnings: append(v.Warnings, other.Warnings...)}
}

// Judge decides about an Application that is about to be created, or changed from old, which is nil at creation. A
// change is refused for what it breaks itself: what was wrong before may stay so while something else is edited, and an
// object that is on its way out, or whose spec is as it was, is never held up.
func Judge(app, old *platformv1.Application, facts func(*platformv1.Application) Facts) Verdict {
	if !app.DeletionTimestamp.IsZero() || old != nil && equality.Semantic.DeepEqual(app.Spec, old.Spec) {
		return Verdict{}
	}
	refused, warnings := problems(app, facts(app))
	if old == nil || len(refused) == 0 {
		return Verdict{Refused: refused, Warnings: warnings}
	}
	before, _ := problems(old, facts(old))
	verdict := unlessBefore(refused, before)
	verdict.Warnings = slices.Concat(warnings, verdict.Warnings)
	return verdict
}

// unlessBefore refuses what was not wrong before, and warns of what was.
func unlessBefore(refused, before []*render.Refusal) Verdict {
	var verdict Verdict
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
	if waits := ArchiveWaits(app, f, wanted); waits != nil {
		return nil, []string{held(waits)}
	}
	refusals, waits := Restore(app, f, wanted)
	if len(refusals) > 0 {
		return refusals, nil
	}
	var outputs []*render.ComponentOutput
	if outputs, refusals = rendered(app, f, wanted); len(refusals) > 0 {
		return refusals, nil
	}
	refusals, warnings := volumes(app, f, outputs)
	if r := Class(f, wanted); r != nil {
		warnings = append(warnings, held(r))
	}
	if waits != nil {
		warnings = append(warnings, held(waits))
	}
	return refusals, warnings
}

// Still is the warning about what was refused before and keeps a change from nothing.
func Still(refusal string) string { return "it is still refused: " + refusal }

func held(r *render.Refusal) string { return fmt.Sprintf("it will wait: %s", r.Message) }

// rendered returns what would be made. Rules between parameters are checked there.
func rendered(app *platformv1.Application, f Facts, wanted []platformv1.ComponentSpec) ([]*render.ComponentOutput,
	[]*render.Refusal) {
	owner := render.Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID,
		Domain: f.State.Bundle.Manifest.Domain}
	var outputs []*render.ComponentOutput
	var refusals []*render.Refusal
	for i := range wanted {
		output, refusal := render.Component(f.State.Bundle, f.Settings, owner, &wanted[i])
		if refusal != nil {
			refusals = append(refusals, refusal)
			continue
		}
		outputs = append(outputs, output)
	}
	return outputs, refusals
}

// volumes returns, for each component, the first claim that would have to shrink or to be of another class, and the
// first one of an earlier Application that is in the way, or that would be left out.
func volumes(app *platformv1.Application, f Facts, outputs []*render.ComponentOutput) (refusals []*render.Refusal,
	warnings []string) {
	for _, output := range outputs {
		var cannot, taken *render.Refusal
		eachClaim(f, output, func(set *platformv1.WorkloadSetSpec, ordinal int32, volume platformv1.SetVolume,
			claim *corev1.PersistentVolumeClaim) {
			ours := claim.Labels[platformv1.ApplicationUIDLabel] == string(app.UID) && app.UID != ""
			switch {
			case !ours && taken == nil:
				taken = Adoption(set, ordinal, claim)
			case ours && cannot == nil:
				cannot = Shrink(claim, volume.Size)
				// What was adopted keeps its class.
				if cannot == nil && app.Spec.AdoptVolumes == "" {
					cannot = OtherClass(claim, volume)
				}
			}
		})
		if taken == nil {
			taken = leavesOut(app, f, output)
		}
		if cannot != nil {
			refusals = append(refusals, cannot)
		}
		if taken != nil {
			warnings = append(warnings, held(taken))
		}
	}
	return refusals, warnings
}

// leavesOut says which claims of an earlier Application the first set of a component would leave out that has no claim
// of its own yet.
func leavesOut(app *platformv1.Application, f Facts, output *render.ComponentOutput) *render.Refusal {
	for i := range output.WorkloadSets {
		name, spec := output.WorkloadSets[i].Name, output.WorkloadSets[i].Spec
		began := false
		for _, claim := range f.Claims {
			labels := claim.Labels
			began = began || app.UID != "" && labels[platformv1.ApplicationUIDLabel] == string(app.UID) &&
				labels[platformv1.ComponentLabel] == spec.Component && labels[platformv1.SetLabel] == spec.Set
		}
		if began {
			continue
		}
		if r := LeftOut(&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, f.Claims); r != nil {
			return r
		}
	}
	return nil
}

// eachClaim calls visit for every claim that is there of those that the pods of a component need.
func eachClaim(f Facts, output *render.ComponentOutput,
	visit func(*platformv1.WorkloadSetSpec, int32, platformv1.SetVolume, *corev1.PersistentVolumeClaim)) {
	if len(f.Claims) == 0 {
		return
	}
	for i := range output.WorkloadSets {
		set := &output.WorkloadSets[i]
		for _, ordinal := range set.Spec.Ordinals() {
			for _, volume := range set.Spec.Volumes {
				if claim := f.claim(set.Name, volume.Name, ordinal); claim != nil {
					visit(&set.Spec, ordinal, volume, claim)
				}
			}
		}
	}
}

// claim is the one that a pod of a set has for a volume: of the generation that the set has. Of a set that is to be
// made, it is the one that the set will find. Nil for none.
func (f Facts) claim(set, volume string, ordinal int32) *corev1.PersistentVolumeClaim {
	pod := platformv1.PodNameFor(set, ordinal)
	generation, is := f.Generations[set]
	claim := f.Claims[platformv1.ClaimNameIn(generation, volume, pod)]
	if is || claim != nil {
		return claim
	}
	name := platformv1.ClaimNameFor(volume, pod)
	for _, other := range slices.Sorted(maps.Keys(f.Claims)) {
		if generation := f.Claims[other].Labels[platformv1.GenerationLabel]; generation != "" && other == name+"-"+
			generation {
			return f.Claims[other]
		}
	}
	return nil
}
