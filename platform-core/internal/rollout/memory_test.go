// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// What a process makes of its limit of memory is at no time above the limit that its container has.
func TestConfigurationFollowsTheLimitOfMemory(t *testing.T) {
	healthy := report.Report{Health: report.Healthy, Role: "primary", ConfigDigest: "d1", RestartDigest: "s1"}
	for name, test := range map[string]struct {
		resources rollout.Fit
		tightens  bool
		window    rollout.Window
		restart   string
		want      rollout.Action
	}{
		"more memory":                        {resources: rollout.Outdated, want: rollout.ResizePod},
		"more that the node has yet to give": {resources: rollout.Underway},
		"more that is given":                 {want: rollout.ReloadPlan},
		"less memory": {resources: rollout.Outdated, tightens: true,
			want: rollout.ReloadPlan},
		"less, by a restart": {resources: rollout.Outdated, tightens: true, restart: "s2",
			want: rollout.PushPlan},
		"less, outside of the windows": {resources: rollout.Outdated, tightens: true, window: rollout.Closed,
			want: rollout.ReloadPlan},
		"less, by a restart, outside of the windows": {resources: rollout.Outdated, tightens: true, window: rollout.Closed,
			restart: "s2"},
		"more, and a restart, outside of the windows": {resources: rollout.Outdated, window: rollout.Closed, restart: "s2",
			want: rollout.ResizePod},
	} {
		t.Run(name, func(t *testing.T) {
			f := rollout.Facts{Name: "a", Replicas: 1, Revision: "r1", ConfigDigest: "d2", RestartDigest: "s1", Roles: roles,
				Window: test.window}
			if test.restart != "" {
				f.RestartDigest = test.restart
			}
			f.Pods = []rollout.Pod{{Name: "a-0", Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1", Role: "primary",
				Report:    healthy,
				Resources: test.resources, Tightens: test.tightens}}
			var got rollout.Action
			if steps := rollout.Plan(f); len(steps) > 0 {
				got = steps[0].Action
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
