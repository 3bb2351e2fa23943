// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/pointintime"
)

// step is a log that is replayed, without the transactions that are there by then.
type step struct {
	log
	there Set
}

// chain is the logs that lead from a set of transactions to a time, in the order in which they are replayed: each goes
// on from what is there before it. Those that have transactions of before the time are among them, whatever another one
// reaches. An error is an OutOfRange.
func chain(logs []log, base Set, until time.Time) ([]step, error) {
	logs = slices.Clone(logs)
	slices.SortFunc(logs, func(a, b log) int {
		if order := a.Closed.Compare(b.Closed); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	var steps []step
	var reached time.Time
	there := base
	for {
		i := slices.IndexFunc(logs, func(l log) bool {
			// A server that was cut off, or behind, has closed its log without what others had committed by then.
			return l.previous.Within(there) &&
				(reached.Before(until) || l.First.Before(until) && !l.transactions.Within(there))
		})
		switch {
		case i < 0 && reached.Before(until):
			return nil, refused(logs, there, reached, until)
		case i < 0:
			return steps, nil
		}
		l := logs[i]
		logs = slices.Delete(logs, i, i+1)
		if !l.transactions.Within(there) {
			steps = append(steps, step{l, there})
			there = there.Union(l.transactions)
		}
		if l.Closed.After(reached) {
			reached = l.Closed
		}
	}
}

// refused says what can be reached. Logs are those that do not go on from what is there.
func refused(logs []log, there Set, reached, until time.Time) error {
	time := pointintime.InWords(until)
	lacking := ""
	if len(logs) > 0 {
		lacking = "; there are later logs, and the archive lacks the transactions " + logs[0].previous.Minus(there).String() +
			" before those"
	}
	if reached.IsZero() {
		return pointintime.Refused("%s cannot be reached: the archive has no log that goes on from the backup%s", time,
			lacking)
	}
	return pointintime.Refused("%s cannot be reached: what is archived goes up to %s%s", time,
		pointintime.InWords(reached), lacking)
}
