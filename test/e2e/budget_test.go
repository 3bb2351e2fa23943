// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

// writeBudget is what the design allows operator and agents together, from create to Ready: 6 for each pod, 6 for each component and each
// set, and 30.
func writeBudget(pods, components, sets int) int { return 6*pods + 6*(components+sets) + 30 }

// TestWritesOfOneCreation counts what an instance costs the API server until all is quiet again. It runs alone because it measures.
func TestWritesOfOneCreation(t *testing.T) {
	for name, c := range map[string]struct {
		budget   int
		settings []setting
	}{
		"one":       {writeBudget(1, 1, 1), nil},
		"sentinels": {writeBudget(6, 2, 2), []setting{withReplicas(2), withSentinels(3)}},
	} {
		t.Run(name, func(t *testing.T) { newSpace(t, "budget"+name).costs(c.budget, c.settings...) })
	}
}

// costs counts the writes of one Redis.
func (s *space) costs(budget int, settings ...setting) {
	s.Helper()
	s.clientPod()
	audit := s.rest()
	i := s.redis("db", settings...)
	took := i.becomesReady()
	atReady := audit.product()
	s.waitQuiet(audit)
	s.flush(audit)
	all := audit.product()
	s.Logf("apply to Ready: %s", seconds(took))
	s.Logf("API writes from create to Ready: operator %d, agents %d; until quiet: operator %d, agents %d, others %d, budget %d:%s",
		count(atReady, byOperator), count(atReady, byAgents), count(all, byOperator), count(all, byAgents),
		count(in(s.name, audit.writes()), byOthers), budget, tally(all))
	if len(all) > budget {
		s.Errorf("operator and agents made %d writes, want at most %d", len(all), budget)
	}
	if count(all, byOperator) == 0 || count(all, byAgents) == 0 {
		s.Error("the audit log shows no writes of the operator or none of the agents: the count means nothing")
	}
	for _, w := range conflicts(all) {
		s.Errorf("conflict: %s", w)
	}
	for _, w := range all {
		if w.code >= 400 {
			s.Errorf("refused write: %s", w)
		}
	}
}
