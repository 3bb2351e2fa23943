// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Forecast says what becomes of the volumes of the wanted pods. Those of a set that is stopped wait for its pods.
func Forecast(set *platformv1.WorkloadSet, f *facts.Facts) []platformv1.PlannedChange {
	var changes []platformv1.PlannedChange
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		change := platformv1.PlannedChange{
			Component: set.Spec.Component, Kind: "PersistentVolumeClaim",
			Name: set.Spec.ClaimNameFor(volume.Name, platformv1.PodNameFor(set.Name, ordinal)),
		}
		if claim == nil {
			if f.Mode == rollout.Stopped {
				return
			}
			change.Action, change.Reason = platformv1.PlannedCreate, "a volume of "+volume.Size.String()
			changes = append(changes, change)
			return
		}
		have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if has, grows := accept.Growing(claim); grows && have.Cmp(volume.Size) > 0 {
			have = has // A size that it has not got yet is taken back.
		}
		if have.Cmp(volume.Size) < 0 {
			change.Action, change.Reason = platformv1.PlannedGrow,
				fmt.Sprintf("from %s to %s", have.String(), volume.Size.String())
			changes = append(changes, change)
		}
	})
	return changes
}
