// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
	"github.com/zeroinfra/platform-core/internal/failover"
)

// withCopies is the trio of which so many have a copy of each write, and whose primary is on its way out.
func withCopies(copies int, change func(f *failover.Facts)) failover.Facts {
	f := leaving(failover.Measurement{Order: 9}, failover.Measurement{Order: 7})
	f.Record.List.SynchronousReplicas, f.SynchronousReplicas = copies,
		failover.SynchronousReplicas{Wanted: copies, Shortage: failover.Wait}
	change(&f)
	return f
}

// takenOff has a-1 be of no list but the one that the primary has not confirmed the end of.
func takenOff(f *failover.Facts) {
	all := f.Record.List
	f.Record.Previous = &all
	f.Record.List = permission.List{Version: 2, SynchronousReplicas: all.SynchronousReplicas,
		Members: []permission.Member{all.Members[0], all.Members[2]}}
}

// TestWhoeverMayHaveAcknowledgedIsHeard before another takes over.
func TestWhoeverMayHaveAcknowledgedIsHeard(t *testing.T) {
	sick := func(n int) func(f *failover.Facts) {
		return func(f *failover.Facts) { f.Pods[n].Health = report.Unhealthy }
	}
	for name, tc := range map[string]struct {
		copies int
		change func(f *failover.Facts)
		want   string
	}{
		"all are heard":                       {1, func(*failover.Facts) {}, "a-1"},
		"one may have what the other has not": {1, sick(1), ""},
		"both have each write":                {2, sick(1), "a-2"},
		"nobody waits for copies":             {0, sick(1), "a-2"},
		"its volume is another one":           {1, func(f *failover.Facts) { f.Pods[1].Member.Identity = "new" }, ""},
		"it is not wanted any more":           {1, func(f *failover.Facts) { f.Wanted = []string{"a-0", "a-2"} }, ""},
		"it cannot be measured": {1, func(f *failover.Facts) { f.Pods[1].Measurement.Problem = "no answer" },
			""},
		"what it has is too far behind to count": {1, func(f *failover.Facts) {
			f.MaxLag, f.Pods[1].Measurement.Lag, f.Pods[2].Measurement.Lag = new(int64(5)), new(int64(6)), new(int64(0))
		}, ""},
		"the list before had no copies": {1, func(f *failover.Facts) {
			sick(1)(f)
			f.Record.List.Version = 2
			f.Record.Previous = &permission.List{Version: 1, Members: f.Record.List.Members}
		}, ""},
		"only the list before had copies": {0, func(f *failover.Facts) {
			sick(1)(f)
			f.Record.List.Version = 2
			f.Record.Previous = &permission.List{Version: 1, Members: f.Record.List.Members, SynchronousReplicas: 1}
		}, ""},
		"it was taken off the list, is back, and has less": {1, func(f *failover.Facts) {
			takenOff(f)
			f.Pods[1].Measurement.Order = 6
		}, "a-2"},
		"it was taken off the list, is back, and has more": {1, takenOff, ""},
		"it was taken off the list, and is not back": {1, func(f *failover.Facts) {
			takenOff(f)
			sick(1)(f)
		}, ""},
		"it was taken off the list, and is back with another volume": {1, func(f *failover.Facts) {
			takenOff(f)
			f.Pods[1].Member.Identity = "new"
		}, ""},
		"it was taken off the list, and the loss is accepted": {1, func(f *failover.Facts) {
			takenOff(f)
			f.Order = &failover.Order{Way: failover.TakeOver, Loss: failover.Accepted}
		}, "a-2"},
		"a loss is accepted": {1, func(f *failover.Facts) {
			sick(1)(f)
			f.Order = &failover.Order{Way: failover.TakeOver, Loss: failover.Accepted}
		}, "a-2"},
		"one is told to take over and the other is not heard": {1, func(f *failover.Facts) {
			sick(1)(f)
			f.Order = &failover.Order{Way: failover.TakeOver, To: "a-2"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := withCopies(tc.copies, tc.change)
			step := deposed(f, &failover.Memory{})
			d := failover.Plan(f, &failover.Memory{})
			switch {
			case tc.want == "" && (step != nil || !strings.Contains(d.Message, "a-1")):
				t.Errorf("it does %v, and says %q", step, d.Message)
			case tc.want != "" && (step == nil || !strings.Contains(step.Reason, tc.want+" can take over")):
				t.Errorf("it does %v, want that %s takes over: %s", step, tc.want, d.Message)
			}
		})
	}
}

// TestTheLastThatHaveCopiesStayMembers while writes wait for them, and no others do.
func TestTheLastThatHaveCopiesStayMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		copies  failover.SynchronousReplicas
		away    []int
		members string
		after   int
	}{
		"one of two is away": {failover.SynchronousReplicas{Wanted: 1, Shortage: failover.Wait}, []int{1},
			"a-0 a-2", 1},
		"both are away": {failover.SynchronousReplicas{Wanted: 1, Shortage: failover.Wait},
			[]int{1, 2}, "a-0 a-2", 1},
		"both are away, and writes are to go on": {failover.SynchronousReplicas{Wanted: 1, Shortage: failover.Continue},
			[]int{1, 2}, "a-0", 0},
		"both have each write": {failover.SynchronousReplicas{Wanted: 2, Shortage: failover.Wait}, []int{1}, "a-0 a-1 a-2",
			2},
		"as many as there are": {failover.SynchronousReplicas{Wanted: 2, Shortage: failover.Continue}, []int{1}, "a-0 a-2",
			1},
		"fewer are wanted now": {failover.SynchronousReplicas{Wanted: 0, Shortage: failover.Wait}, nil, "a-0 a-1 a-2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := trio()
			f.SynchronousReplicas, f.Record.List.SynchronousReplicas = tc.copies, max(1, tc.copies.Wanted)
			for _, n := range tc.away {
				f.Pods[n].Health = report.Unhealthy
			}
			m := &failover.Memory{}
			for range 40 {
				for _, s := range failover.Plan(f, m).Steps {
					switch s.Action {
					case failover.Tell:
						m.Told(s.Pod, f.Record.List.Version, failover.Answer{At: f.Now, Member: f.Pods[s.Pod[2]-'0'].Member})
					case failover.Write:
						f.Record = s.Record
						m.Wrote(f.Record, f.Now)
						f.Pods[0].Member.ListVersion = f.Record.List.Version
					}
				}
				f.Now += time.Second
			}
			var members []string
			for _, member := range f.Record.List.Members {
				members = append(members, member.Name)
			}
			if got := strings.Join(members, " "); got != tc.members || f.Record.List.SynchronousReplicas != tc.after {
				t.Errorf("the members are %s and each write is on %d other members, want %s and %d", got,
					f.Record.List.SynchronousReplicas, tc.members, tc.after)
			}
		})
	}
}
