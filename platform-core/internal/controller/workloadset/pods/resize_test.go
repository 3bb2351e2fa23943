// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What a kubelet said of resources that nobody asks for any more is no reason for anything.
func TestWhatIsSaidOfFormerResourcesDoesNotCount(t *testing.T) {
	said := func(condition corev1.PodConditionType, reason string, ofCondition, ofStatus int64) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Generation = 3
		pod.Status.ObservedGeneration = ofStatus
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: condition, Status: corev1.ConditionTrue, Reason: reason, ObservedGeneration: ofCondition}}
		return pod
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"infeasible": {said(corev1.PodResizePending, corev1.PodReasonInfeasible, 3, 3),
			corev1.PodReasonInfeasible},
		"infeasible, of before": {said(corev1.PodResizePending, corev1.PodReasonInfeasible, 2, 3),
			inProgress},
		"infeasible, of before by the status": {said(corev1.PodResizePending, corev1.PodReasonInfeasible, 0, 2),
			inProgress},
		"infeasible, by who tells no generation": {said(corev1.PodResizePending, corev1.PodReasonInfeasible, 0, 0),
			corev1.PodReasonInfeasible},
		"deferred, of before": {said(corev1.PodResizePending, corev1.PodReasonDeferred, 1, 1), inProgress},
		"an error, of before": {said(corev1.PodResizeInProgress, corev1.PodReasonError, 2, 2), inProgress},
		"an error":            {said(corev1.PodResizeInProgress, corev1.PodReasonError, 3, 3), corev1.PodReasonError},
		"readiness, of before, is none of a resize": {said(corev1.PodReady, "", 2, 3), ""},
	} {
		if got, _, _ := resizeState(c.pod); got != c.want {
			t.Errorf("%s: it is %q, want %q", name, got, c.want)
		}
	}
}
