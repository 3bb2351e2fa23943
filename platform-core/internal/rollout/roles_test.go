// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Redis Cluster may promote a replica before the probe of the primary that hangs has failed: both have the label for
// that long, and the one that does not answer loses it then, although nobody gets one.
func TestAPrimaryThatStopsAnsweringLosesItsLabelToOneThatHasIt(t *testing.T) {
	pod := func(name string, ordinal int32, health report.Health, role string) rollout.Pod {
		return rollout.Pod{Name: name, Ordinal: ordinal, Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
			Role:   "primary",
			Report: report.Report{Health: health, Role: role, ConfigDigest: "d1"}}
	}
	for name, test := range map[string]struct {
		pods []rollout.Pod
		want string
	}{
		"both answer": {[]rollout.Pod{pod("a-0", 0, report.Healthy, "primary"), pod("a-1", 1, report.Healthy, "primary")},
			""},
		"one does not answer": {[]rollout.Pod{pod("a-0", 0, report.Unhealthy, ""), pod("a-1", 1, report.Healthy, "primary")},
			`SetRole a-0 "": a-1 takes over`},
		"neither answers": {[]rollout.Pod{pod("a-0", 0, report.Unhealthy, ""), pod("a-1", 1, report.Unhealthy, "")}, ""},
	} {
		f := rollout.Facts{Name: "a", Replicas: 2, Revision: "r1", ConfigDigest: "d1", Roles: roles,
			Authority: rollout.AuthorityMiddleware, Pods: test.pods}
		got := ""
		for _, step := range rollout.Plan(f) {
			if step.Action == rollout.SetRole {
				got += step.String()
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
