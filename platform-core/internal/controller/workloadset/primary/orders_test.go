// SPDX-License-Identifier: Apache-2.0

package primary

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// A set that does not do what an Operation asks for says so; but one whose primary is down hands over when that is
// back, which it waits for.
func TestWhatASetSaysOfARequest(t *testing.T) {
	for name, tc := range map[string]struct {
		way      platformv1.HandoverWay
		decision failover.Decision
		want     platformv1.SwitchoverPhase
	}{
		"it hands over": {"", failover.Decision{State: failover.Changing},
			platformv1.SwitchoverRunning},
		"nobody can take over": {"", failover.Decision{State: failover.Steady, Refused: "nobody"},
			platformv1.SwitchoverFailed},
		"the primary is down, in Manual": {"", failover.Decision{State: failover.Down, Refused: "say so"},
			platformv1.SwitchoverRunning},
		"the primary starts, in Manual": {"", failover.Decision{State: failover.Starting, Refused: "say so"},
			platformv1.SwitchoverRunning},
		"nobody can take over from the other": {platformv1.TakeOver,
			failover.Decision{State: failover.Down, Refused: "nobody"}, platformv1.SwitchoverFailed},
	} {
		t.Run(name, func(t *testing.T) {
			request := platformv1.HandoverRequest{From: "x-0", Way: tc.way, Request: "a/1"}
			set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{platformv1.SwitchPrimaryAnnotation: request.String()}}}
			draft := &facts.Draft{Facts: &facts.Facts{
				Primary: &platformv1.PrimaryRecord{Member: &platformv1.SetMember{Name: "x-0"}}}}
			primary := &reconcile{set: set, Verdict: &Verdict{Draft: draft, Asking: &platformv1.Operation{}}}
			primary.noteOrder(tc.decision)
			if got := set.Status.Switchover; got == nil || got.Phase != tc.want || got.Message != tc.decision.Refused {
				t.Errorf("it says %+v", got)
			}
		})
	}
}
