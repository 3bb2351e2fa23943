// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"testing"

	"github.com/zeroinfra/test/e2e/framework"
)

// writeBudget is what the design allows operator and agents together, from create to Ready: 6 for each pod, 6 for each
// component and each set, and 30.
func writeBudget(pods, components, sets int) int { return 6*pods + 6*(components+sets) + 30 }

// TestWritesOfOneCreation counts what an instance costs the API server until all is quiet again. It runs alone because
// it measures.
func TestWritesOfOneCreation(t *testing.T) {
	for name, c := range map[string]struct {
		budget   int
		settings []framework.Setting
	}{
		"one":       {writeBudget(1, 1, 1), nil},
		"sentinels": {writeBudget(6, 2, 2), []framework.Setting{framework.WithReplicas(2), framework.WithSentinels(3)}},
	} {
		t.Run(name, func(t *testing.T) { costs(framework.NewNamespace(t, "budget"+name), c.budget, c.settings...) })
	}
}

// costs counts the writes of one Redis.
func costs(s *framework.Namespace, budget int, settings ...framework.Setting) {
	s.Helper()
	s.ClientPod()
	audit := waitForRest(s)
	i := s.CreateRedis("db", settings...)
	took := i.WaitReadyCondition()
	atReady := audit.ProductWrites()
	waitQuiet(s, audit)
	s.Flush(audit)
	all := audit.ProductWrites()
	s.Logf("apply to Ready: %s", framework.FormatSeconds(took))
	s.Logf("API writes from create to Ready: operator %d, agents %d; until quiet: operator %d, agents %d, others %d, "+
		"budget %d:%s",
		framework.CountWrites(atReady, framework.OperatorActor), framework.CountWrites(atReady, framework.AgentsActor),
		framework.CountWrites(all, framework.OperatorActor), framework.CountWrites(all, framework.AgentsActor),
		framework.CountWrites(framework.WritesInNamespace(s.Name, audit.Writes()), framework.OtherActor), budget,
		framework.Tally(all))
	if len(all) > budget {
		s.Errorf("operator and agents made %d writes, want at most %d", len(all), budget)
	}
	if framework.CountWrites(all, framework.OperatorActor) == 0 || framework.CountWrites(all, framework.AgentsActor) == 0 {
		s.Error("the audit log shows no writes of the operator or none of the agents: the count means nothing")
	}
	for _, w := range framework.Conflicts(all) {
		s.Errorf("conflict: %s", w)
	}
	for _, w := range all {
		if w.Code >= 400 {
			s.Errorf("refused write: %s", w)
		}
	}
}
