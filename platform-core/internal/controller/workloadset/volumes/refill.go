// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// lostPart says whether the volume of the first pod is to be filled once more: the set has a part of the data of a
// cluster, the sets have not all begun, and what was put on the volume, or is on its way there, went with it. Nobody
// else has that part: replicas copy what the first pod has, and members that meet would take its part for empty. Once
// all have begun, the set is told of no restore any more.
func lostPart(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	if set.Spec.Restore == nil || set.Spec.Restore.Part == "" || set.Status.Restore == nil ||
		f.Mode != rollout.Running || len(set.Spec.Ordinals()) == 0 {
		return false
	}
	return f.Pods[set.FirstPod()] == nil && !filled(set, f)
}

// begun is how a restore goes on, or begins: where the data was there and is lost, as another attempt.
func begun(set *platformv1.WorkloadSet, f *facts.Facts) *platformv1.RestoreState {
	state := set.Status.Restore.DeepCopy()
	switch {
	case state == nil:
		return &platformv1.RestoreState{Attempt: 1, StartTime: &metav1.Time{Time: f.Now}}
	case state.Done() && lostPart(set, f):
		// The Job of the former attempt has succeeded, and is not to be taken for this one's.
		return &platformv1.RestoreState{Attempt: state.Attempt + 1, StartTime: &metav1.Time{Time: f.Now}}
	}
	return state
}
