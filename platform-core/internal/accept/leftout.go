// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/render"
)

// LeftOut says that volumes of an earlier Application, which the set adopts, hold data that no pod of it would have;
// nil when none does. Which volume was written last is known from all of them together alone: what says it is on the
// volumes, and the record of who wrote went with the set of before. Claims are those of the set, by name.
func LeftOut(set *platformv1.WorkloadSet, claims map[string]*corev1.PersistentVolumeClaim) *render.Refusal {
	var left []leftover
	for _, claim := range claims {
		generation := claim.Labels[platformv1.GenerationLabel]
		// What is being filled, or deleted, or is of another generation than a person chose, is not what an instance had.
		if claim.DeletionTimestamp != nil || claim.Annotations[platformv1.PreparedAnnotation] != "" || set.Spec.Data != nil &&
			set.Spec.Data.Generation != generation {
			continue
		}
		left = append(left, leftover{Object: claim, claim: withoutGeneration(claim), named: "claim " + claim.Name})
	}
	return leftOut(set, left)
}

// SnapshotsLeftOut is LeftOut of VolumeSnapshots, by the names that their claims have without a generation.
func SnapshotsLeftOut[S LeftSnapshot](set *platformv1.WorkloadSet, latest map[string]S) *render.Refusal {
	var left []leftover
	for claim, snapshot := range latest {
		left = append(left, leftover{Object: snapshot, claim: claim, named: "VolumeSnapshot " + snapshot.GetName()})
	}
	return leftOut(set, left)
}

// leftover is a claim or a snapshot that an earlier Application left.
type leftover struct {
	metav1.Object
	// claim is the name that its claim has without a generation.
	claim string
	// named is how a person is told of it.
	named   string
	ordinal int32
}

func leftOut(set *platformv1.WorkloadSet, left []leftover) *render.Refusal {
	wanted := set.Spec.Ordinals()
	if len(wanted) == 0 || set.Spec.AdoptVolumes == "" {
		return nil
	}
	slices.SortFunc(left, func(a, b leftover) int { return cmp.Compare(a.named, b.named) })
	var without []leftover
	for _, one := range left {
		ordinal, err := strconv.ParseInt(one.GetLabels()[platformv1.OrdinalLabel], 10, 32)
		one.ordinal = int32(ordinal)
		switch {
		case err != nil || one.GetLabels()[platformv1.ApplicationUIDLabel] != set.Spec.AdoptVolumes:
		case isAdditional(set, one.claim, one.ordinal):
			return refuse(platformv1.ReasonAdoptionRefused, "what Application %s left cannot be adopted without %s: data is "+
				"spread over the volumes of a pod; ask for as many additionalVolumes of component %q as there were",
				set.Spec.AdoptVolumes, one.named, set.Spec.Component)
		case !slices.Contains(wanted, one.ordinal) && one.holdsData(set):
			without = append(without, one)
		}
	}
	if len(without) == 0 {
		return nil
	}
	slices.SortFunc(without, func(a, b leftover) int {
		return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.named, b.named))
	})
	var names, ordinals []string
	for _, one := range without {
		names, ordinals = append(names, one.named), append(ordinals, fmt.Sprint(one.ordinal))
	}
	return refuse(platformv1.ReasonAdoptionRefused, "what Application %s left cannot be adopted without %s: which "+
		"volume was written last is known only when pods have all of them, and set %q of component %q is to have no pod of "+
		"the ordinals %s; "+
		"ask for the topology and the replicas that there were, and for less when it is ready, or delete those whose data "+
		"is not wanted",
		set.Spec.AdoptVolumes, strings.Join(names, ", "), set.Spec.Set, set.Spec.Component,
		strings.Join(slices.Compact(ordinals), ", "))
}

// holdsData says whether it is of a volume of the set that has data: access logs are none.
func (l leftover) holdsData(set *platformv1.WorkloadSet) bool {
	return slices.ContainsFunc(set.Spec.Volumes, func(v platformv1.SetVolume) bool {
		return v.Name != podtemplate.LogsVolume &&
			platformv1.ClaimNameFor(v.Name, platformv1.PodNameFor(set.Name, l.ordinal)) == l.claim
	})
}
