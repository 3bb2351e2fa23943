// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Fault is one thing that goes wrong, and the gap at which its test fails.
type Fault struct {
	Name  string
	Limit time.Duration
	Does  func(r *Replicated, primary string)
}

// Verdict is what clients that wrote meanwhile have seen of a fault.
type Verdict struct {
	// Gap is the longest time without a write that was acknowledged and replicated, and Vacancy that without a member that
	// takes writes.
	Gap, Vacancy time.Duration
	// changes counts how often another member took writes than before.
	changes            int64
	Acknowledged, Lost int
	// Losses are the writes that are lost, where that is told of each.
	Losses []Loss
}

// Loss is an acknowledged write that cannot be read back.
type Loss struct {
	Key string
	At  time.Time
	// Reported is what is known of it now.
	Reported string
}

// String names the write and the time at which it was acknowledged.
func (l Loss) String() string {
	return fmt.Sprintf("%s, acknowledged at %s: %s", l.Key, l.At.Format("15:04:05.000"), l.Reported)
}

// ReportedLosses is how many losses are told of one by one.
const ReportedLosses = 3

// AnyGap is no limit.
const AnyGap = time.Duration(math.MaxInt64)

// ExpectWithin has the test fail where a write is lost that was acknowledged and, in a run that holds budgets, where
// the gap is longer than the limit.
func (v Verdict) ExpectWithin(t *testing.T, name string, limit time.Duration) {
	t.Helper()
	t.Logf("%s: %d writes acknowledged, lost %d, longest gap %s", name, v.Acknowledged, v.Lost, FormatSeconds(v.Gap))
	if v.Lost != 0 {
		t.Errorf("%s: %d of %d acknowledged writes are lost", name, v.Lost, v.Acknowledged)
	}
	for _, l := range v.Losses[:min(len(v.Losses), ReportedLosses)] {
		t.Errorf("%s: lost is %s", name, l)
	}
	if Config.HoldBudgets && v.Gap > limit {
		t.Errorf("%s: the longest gap is %s, want at most %s", name, FormatSeconds(v.Gap), FormatSeconds(limit))
	}
}

// LongestGap is the longest time between one moment and the next, which are in order.
func LongestGap(moments []time.Time) time.Duration {
	begin, end := WidestGap(moments)
	return end.Sub(begin)
}

// WidestGap are the two moments between which that is; zero where there are fewer.
func WidestGap(moments []time.Time) (begin, end time.Time) {
	for n := 1; n < len(moments); n++ {
		if moments[n].Sub(moments[n-1]) > end.Sub(begin) {
			begin, end = moments[n-1], moments[n]
		}
	}
	return begin, end
}

// Gaps at which the tests of failovers fail: well beyond the budgets of the design, since a busy machine is no defect.
// The tests log what they measure.
const (
	// InPlaceGapLimit is for a server that starts again in its place.
	InPlaceGapLimit = 40 * time.Second
	// FailoverGapLimit is for another server that takes over.
	FailoverGapLimit = 60 * time.Second
)

// In returns the same instance for a subtest.
func (r *Replicated) In(s *Namespace) *Replicated {
	return &Replicated{&Application{Namespace: s, Name: r.Name}, r.Kind}
}
