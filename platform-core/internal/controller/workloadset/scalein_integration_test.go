// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// A primary that is not wanted any more stays until another pod has its data.
func TestALastPrimaryIsNotScaledIn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(2, withFailover, func(s *platformv1.WorkloadSet) {
		s.Spec.Failover.InSync = "!('resyncs' in attributes)"
	})
	h.writes(m, set, "0", 1)
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Annotations = map[string]string{platformv1.SwitchPrimaryAnnotation: setName + "-0"}
	})
	h.writes(m, set, "1", 2)
	// Pod 0 has an empty volume, and copies for a long time.
	h.must(m.change(setName+"-0", func(s *simulatedMember) {
		s.self.Identity, s.resyncs = strings.Repeat("f", 32), true
		s.agent = permission.NewAgent(s.self, permission.State{})
	}))
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 1 })
	h.says(set, platformv1.ReasonSwitchoverPending, "not members, since they lack data: "+setName+
		"-0): it goes once one can; to keep it, scale back so that "+setName+"-1 is wanted")
	if primaries := m.primaries(); len(primaries) != 1 || primaries[0] != "1" || h.pods()["1"].DeletionTimestamp != nil {
		t.Errorf("there write %v", primaries)
	}
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.resyncs = false }))
	h.writes(m, set, "0", 3)
	testkit.WaitForReady(h, env.Client, set)
	if pods := h.pods(); len(pods) != 1 || pods["0"].Name == "" {
		t.Errorf("there are %d pods", len(pods))
	}
}
