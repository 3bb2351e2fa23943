// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

// writeBudget is what the design allows operator and agents together, from create to Ready: 6 for each pod, 6 for each
// component and set, and 30. A standalone Redis has one of each.
const writeBudget = 6*1 + 6*(1+1) + 30

// TestWritesOfOneCreation counts what one Redis costs the API server until all is quiet again. It runs alone because
// it measures.
func TestWritesOfOneCreation(t *testing.T) {
	s := newSpace(t, "budget")
	s.clientPod()
	audit := s.rest()
	i := s.redis("db")
	took := i.becomesReady()
	atReady := audit.product()
	s.waitQuiet(audit)
	s.flush(audit)
	all := audit.product()
	t.Logf("apply to Ready: %s", seconds(took))
	t.Logf("API writes from create to Ready: operator %d, agents %d; until quiet: operator %d, agents %d, others %d, budget %d:%s",
		count(atReady, byOperator), count(atReady, byAgents), count(all, byOperator), count(all, byAgents),
		count(in(s.name, audit.writes()), byOthers), writeBudget, tally(all))
	if len(all) > writeBudget {
		t.Errorf("operator and agents made %d writes, want at most %d", len(all), writeBudget)
	}
	if count(all, byOperator) == 0 || count(all, byAgents) == 0 {
		t.Error("the audit log shows no writes of the operator or none of the agents: the count means nothing")
	}
	for _, w := range conflicts(all) {
		t.Errorf("conflict: %s", w)
	}
	for _, w := range all {
		if w.code >= 400 {
			t.Errorf("refused write: %s", w)
		}
	}
}
