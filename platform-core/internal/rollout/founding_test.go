// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// A server that was alone gets others: they wait until it is named, and it is named once it has its new configuration.
func TestAFirstPrimaryIsChangedWhileOthersWaitForIt(t *testing.T) {
	alone := rollout.Pod{Name: "a-0", Life: rollout.Alive, Revision: "r1", Ready: rollout.Ready, Role: "primary",
		Report: report.Report{Health: report.Healthy, Role: "primary", ConfigDigest: "d1", RestartDigest: "s1"}}
	waits := rollout.Pod{Name: "a-1", Ordinal: 1, Life: rollout.Alive, Revision: "r1", Ready: rollout.NotReady,
		Report: report.Report{Health: report.Starting, ConfigDigest: "d2", RestartDigest: "s2"}}
	f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d2", RestartDigest: "s2", Roles: roles,
		Authority: rollout.AuthorityEngine,
		Pods:      []rollout.Pod{alone, waits}}
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Errorf("while it is not known why the other waits, the steps are %v", steps)
	}
	f.Founding = true
	steps := rollout.Plan(f)
	if len(steps) != 1 || steps[0].Action != rollout.PushPlan || steps[0].Pod != "a-0" {
		t.Fatalf("the steps are %v, want its configuration to be pushed to a-0", steps)
	}
	// What takes its pod out waits for nobody either; what is as wanted is left alone.
	f.Pods[0].Report.ConfigDigest, f.Pods[0].Report.RestartDigest = "d2", "s2"
	if steps := rollout.Plan(f); len(steps) != 0 {
		t.Errorf("with the configuration the steps are %v", steps)
	}
}
