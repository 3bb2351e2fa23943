// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// How far a set is with a request: what it declines is told as that, and whoever cannot have another pod take over is
// told so for good.
func TestHowFarAHandoverIs(t *testing.T) {
	const why = "no other can take over"
	named, elected := &platformv1.SetFailover{}, (*platformv1.SetFailover)(nil)
	for name, tc := range map[string]struct {
		failover                   *platformv1.SetFailover
		way                        platformv1.HandoverWay
		state                      *platformv1.SwitchoverState
		stalled                    bool
		progress, refusal, problem string
	}{
		"nothing said": {failover: named},
		"of another": {failover: named,
			state: &platformv1.SwitchoverState{Request: "b/2", Phase: platformv1.SwitchoverFailed, Message: why}},
		"under way": {failover: named,
			state:    &platformv1.SwitchoverState{Request: "a/1", Phase: platformv1.SwitchoverRunning, Message: "it is down"},
			progress: "it is down"},
		"declined": {failover: named,
			state: &platformv1.SwitchoverState{Request: "a/1", Phase: platformv1.SwitchoverFailed, Message: why}, progress: why,
			refusal: why},
		"a takeover that is not": {failover: named, way: platformv1.TakeOver,
			state: &platformv1.SwitchoverState{Request: "a/1", Phase: platformv1.SwitchoverFailed, Message: why}, problem: why},
		"members that elect": {failover: elected,
			state:    &platformv1.SwitchoverState{Request: "a/1", Attempt: 2, Phase: platformv1.SwitchoverRunning},
			progress: "attempt 2"},
		"members that did not": {failover: elected,
			state: &platformv1.SwitchoverState{Request: "a/1", Attempt: 2, Phase: platformv1.SwitchoverFailed,
				Message: "no quorum"}, progress: "attempt 2 failed: no quorum"},
		"members that never will": {failover: elected,
			state: &platformv1.SwitchoverState{Request: "a/1", Attempt: 3, Phase: platformv1.SwitchoverFailed,
				Message: "no quorum"}, stalled: true, problem: "in 3 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Failover: tc.failover},
				Status: platformv1.WorkloadSetStatus{Switchover: tc.state}}
			if tc.stalled {
				set.Status.Conditions = []metav1.Condition{
					{Type: platformv1.StalledCondition, Status: metav1.ConditionTrue, Reason: platformv1.ReasonSwitchoverFailed,
						Message: "in 3 tries"}}
			}
			got := handingOver(set, platformv1.HandoverRequest{From: "x-0", Way: tc.way, Request: "a/1"})
			if got.Outputs[opsflow.OutputProgress] != tc.progress || got.Outputs[opsflow.OutputRefusal] != tc.refusal ||
				got.Problem != tc.problem || got.Failure != "" {
				t.Errorf("it says %+v", got)
			}
		})
	}
}

// A pod that its members elected while a rebuild of it was decided on is left alone.
func TestNobodyDeletesTheElected(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(set *platformv1.WorkloadSet, pod *corev1.Pod)
		want   bool
	}{
		"it was elected": {func(*platformv1.WorkloadSet, *corev1.Pod) {}, true},
		"another was":    {func(_ *platformv1.WorkloadSet, pod *corev1.Pod) { pod.Labels = nil }, false},
		"it is a replica": {func(_ *platformv1.WorkloadSet, pod *corev1.Pod) {
			pod.Labels[platformv1.RoleLabel] = "b"
		}, false},
		"it is made anew": {func(_ *platformv1.WorkloadSet, pod *corev1.Pod) { pod.UID = "new" }, false},
		"it is gone":      {func(_ *platformv1.WorkloadSet, pod *corev1.Pod) { pod.Name = "a-1" }, false},
		"the engine names": {func(set *platformv1.WorkloadSet, _ *corev1.Pod) {
			set.Spec.Failover = &platformv1.SetFailover{}
		}, false},
	} {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		set.Spec.Roles = []platformv1.SetRole{{Name: "a", Access: platformv1.RoleReadWrite},
			{Name: "b", Access: platformv1.RoleReadOnly}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a-0", UID: "old",
			Labels: map[string]string{platformv1.RoleLabel: "a"}}}
		tc.change(set, pod)
		c := &Controller{live: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(pod).Build()}
		answer, err := c.elected(t.Context(), set, &opsflow.Rebuild{Pod: "a-0", UID: "old"})
		if refused := answer != nil; err != nil || refused != tc.want {
			t.Errorf("%s: it is refused: %t, %v", name, refused, err)
		}
	}
}
