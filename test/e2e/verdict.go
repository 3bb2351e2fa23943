// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// fault is one thing that goes wrong, and the gap at which its test fails.
type fault struct {
	name  string
	limit time.Duration
	does  func(r *replicated, primary string)
}

// verdict is what clients that wrote meanwhile have seen of a fault.
type verdict struct {
	// gap is the longest time without a write that was acknowledged and replicated, and vacancy that without a member that takes writes.
	gap, vacancy time.Duration
	// changes counts how often another member took writes than before.
	changes            int64
	acknowledged, lost int
	// losses are the writes that are lost, where that is told of each.
	losses []loss
}

// loss is an acknowledged write that cannot be read back.
type loss struct {
	key string
	at  time.Time
	// told is what is known of it now.
	told string
}

func (l loss) String() string {
	return fmt.Sprintf("%s, acknowledged at %s: %s", l.key, l.at.Format("15:04:05.000"), l.told)
}

// toldLosses is how many losses are told of one by one.
const toldLosses = 3

// anyGap is no limit.
const anyGap = time.Duration(math.MaxInt64)

// hold has the test fail where a write is lost that was acknowledged, or the gap is longer than the limit.
func (v verdict) hold(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %d writes acknowledged, lost %d, longest gap %s", name, v.acknowledged, v.lost, seconds(v.gap))
	if v.lost != 0 {
		t.Errorf("%s: %d of %d acknowledged writes are lost", name, v.lost, v.acknowledged)
	}
	for _, l := range v.losses[:min(len(v.losses), toldLosses)] {
		t.Errorf("%s: lost is %s", name, l)
	}
	if v.gap > limit {
		t.Errorf("%s: the longest gap is %s, want at most %s", name, seconds(v.gap), seconds(limit))
	}
}

// longestGap is the longest time between one moment and the next, which are in order.
func longestGap(moments []time.Time) time.Duration {
	begin, end := widest(moments)
	return end.Sub(begin)
}

// widest are the two moments between which that is; zero where there are fewer.
func widest(moments []time.Time) (begin, end time.Time) {
	for n := 1; n < len(moments); n++ {
		if moments[n].Sub(moments[n-1]) > end.Sub(begin) {
			begin, end = moments[n-1], moments[n]
		}
	}
	return begin, end
}
