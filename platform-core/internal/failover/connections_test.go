// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// TestOutOfConnectionsIsNotDown: a primary whose clients have all of its connections stays the primary, however long
// that lasts. Its agent goes by what it knew of it, or, after a start, by nothing but that it answers.
func TestOutOfConnectionsIsNotDown(t *testing.T) {
	for _, c := range []struct {
		health   report.Health
		full     bool
		replaced bool
	}{
		{report.Healthy, true, false},
		{report.Starting, true, false},
		{report.Starting, false, true},
		{report.Unhealthy, false, true},
	} {
		var m failover.Memory
		f := trio()
		for _, p := range f.Pods {
			m.Told(p.Name, 1, failover.Answer{At: f.Now, Member: p.Member})
		}
		failover.Plan(f, &m)
		f.Pods[0].Health, f.Pods[0].OutOfConnections = c.health, c.full
		replaced := false
		for end := f.Now + 5*time.Minute; f.Now < end && !replaced; f.Now += 100 * time.Millisecond {
			d := failover.Plan(f, &m)
			replaced = slices.ContainsFunc(d.Steps, func(s failover.Step) bool { return s.Action == failover.Write })
			if !c.replaced && d.State != failover.Steady {
				t.Fatalf("%+v: it is %s: %s", c, d.State, d.Message)
			}
		}
		if replaced != c.replaced {
			t.Errorf("%+v: another one takes over: %v", c, replaced)
		}
	}
}
