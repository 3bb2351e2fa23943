// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// TestExplained: a log that ends before the target is told apart from everything else.
func TestExplained(t *testing.T) {
	for name, test := range map[string]struct {
		heard, why, says string
		outOfRange       bool
	}{
		"ended before": {"LOG:  last completed transaction was at log time 2026-01-02 03:04:05.6 UTC",
			"recovery ended before configured recovery target was reached",
			"2026-01-02T04:00:00Z was not reached: the last transaction that there is ended at 2026-01-02 03:04:05.6 UTC", true},
		"before the copy was whole": {"", "requested recovery stop point is before consistent recovery point",
			"is before the backup was complete", true},
		"a gap": {"", `could not restore file "0" from archive: child process exited with exit code 200`,
			"the recovery failed: could not restore file", false},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			l.hear(test.heard)
			err := l.explained(mover.Target{Time: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)}, test.why)
			if err == nil || !strings.Contains(err.Error(), test.says) ||
				errors.As(err, new(pointintime.OutOfRange)) != test.outOfRange {
				t.Errorf("it is %v", err)
			}
		})
	}
}
