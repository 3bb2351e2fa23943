// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// volumesStay refuses to take out volumes that users added to the pods of a component: what is on them would be left
// behind. Those that no storage was ever made for can go.
func volumesStay(f Facts, wanted []platformv1.ComponentSpec) []*render.Refusal {
	var refusals []*render.Refusal
	for i := range wanted {
		existing := f.Components[wanted[i].Component]
		if existing == nil {
			continue
		}
		was, is := len(existing.Spec.AdditionalVolumes), len(wanted[i].AdditionalVolumes)
		if is >= was {
			continue
		}
		if claim, field := f.usedVolume(existing, is, was); claim != "" {
			refusals = append(refusals, refuse(platformv1.ReasonVolumeShrinkRefused,
				"component %q has %d additionalVolumes and the spec asks for %d: data is spread over all of them, and none can "+
					"be taken out once there is a volume for it; claim %s has one for %s; set them back", wanted[i].Component, was,
				is, claim, field))
		}
	}
	return refusals
}

// LosesVolumes says whether an Application asks for fewer additional volumes than a Component of it has.
func LosesVolumes(app *platformv1.Application, component *platformv1.Component) bool {
	asked := 0
	for i := range app.Spec.Components {
		if app.Spec.Components[i].Name == component.Spec.Component {
			asked = len(app.Spec.Components[i].AdditionalVolumes)
		}
	}
	return asked < len(component.Spec.AdditionalVolumes)
}

// usedVolume is the first claim with a volume of those between two numbers of additional ones, and the field that asks
// for that volume; empty for none. It is of any pod that there was.
func (f Facts) usedVolume(component *platformv1.Component, from, to int) (claim, field string) {
	declared, ok := f.State.Bundle.Component(component.Spec.Component)
	if !ok || len(declared.Volumes) == 0 {
		return "", ""
	}
	for number := from + 1; number <= to; number++ {
		volume := declared.Volumes[0].AdditionalName(number)
		for _, name := range slices.Sorted(maps.Keys(f.Claims)) {
			if strings.HasPrefix(name, platformv1.ClaimNameFor(volume, component.Name)+"-") && !isEmpty(f.Claims[name]) {
				field, _ := ClassField(volume)
				return name, field
			}
		}
	}
	return "", ""
}

// isEmpty says whether no volume was ever made for a claim: there is nothing in it.
func isEmpty(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && (claim.Status.Phase == "" || claim.Status.Phase == corev1.ClaimPending)
}

// TakenOutEmpty says whether a claim is of a volume that a user had added to the pods of a set and took out again, and
// nothing is in it.
func TakenOutEmpty(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) bool {
	ordinal, err := strconv.ParseInt(claim.Labels[platformv1.OrdinalLabel], 10, 32)
	generation := claim.Labels[platformv1.GenerationLabel]
	return err == nil && generation == set.Spec.Generation() && isEmpty(claim) &&
		claim.Annotations[platformv1.PreparedAnnotation] == "" &&
		isAdditional(set, withoutGeneration(claim), int32(ordinal))
}

// withoutGeneration is the name that a claim has without that of a generation of the volumes.
func withoutGeneration(claim *corev1.PersistentVolumeClaim) string {
	if generation := claim.Labels[platformv1.GenerationLabel]; generation != "" {
		return strings.TrimSuffix(claim.Name, "-"+generation)
	}
	return claim.Name
}

// isAdditional says whether a claim, by its name without a generation, is of a volume that a user had added, and that
// the set does not have.
func isAdditional(set *platformv1.WorkloadSet, claim string, ordinal int32) bool {
	if len(set.Spec.Volumes) == 0 {
		return false
	}
	name, ok := strings.CutSuffix(claim, "-"+platformv1.PodNameFor(set.Name, ordinal))
	number, is := strings.CutPrefix(name, set.Spec.Volumes[0].Name+"-")
	if _, err := strconv.Atoi(number); !ok || !is || err != nil {
		return false
	}
	return !slices.ContainsFunc(set.Spec.Volumes, func(v platformv1.SetVolume) bool { return v.Name == name })
}
