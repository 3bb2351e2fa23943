// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
