// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron/oracle"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// burst is a line with more times an hour than runs of such a length leave room for, on days that clocks are changed
	// and on others. No run ends within a minute of a time: those of a controller that was killed begin some seconds
	// later.
	burst      = "10,50 1-3 * * SUN,WED"
	burstTakes = 47 * time.Minute
	// burstWaits is how many of its times may wait.
	burstWaits = 2
	// nightly is within the hour that most clocks leave out, and withSeconds as well.
	nightly     = "30 2 * * *"
	withSeconds = "20,40 30 2 * * SUN"
)

var (
	end          = begin.AddDate(2, 0, 0)
	concurrency  = []string{"Allow", "Forbid", "Replace", "Queue"}
	clockChanges = []string{"Shift First", "Shift Last", "Shift Both", "Skip First", "Skip Last", "Skip Both"}
)

// clocks of zones, which take longer to compute than most tests.
var clocks sync.Map

// inEachZone runs a test for each of eight zones, for two years.
func inEachZone(t *testing.T, test func(t *testing.T, i int, zone string, clock *oracle.Clock)) {
	for i, zone := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu",
		"Africa/Casablanca", "Pacific/Chatham",
	} {
		t.Run(strings.ReplaceAll(zone, "/", "-"), func(t *testing.T) {
			t.Parallel()
			clock, known := clocks.Load(zone)
			if !known {
				clock = oracle.NewClock(t, zone, begin, end)
				clocks.Store(zone, clock)
			}
			test(t, i, zone, clock.(*oracle.Clock))
		})
	}
}

// history is a world of one line, and the times of its runs as the oracle has them.
type history struct {
	*world
	line, policy, change string
	times                []time.Time
	want                 []time.Time
}

func newHistory(t *testing.T, clock *oracle.Clock, zone, line, policy, change string) *history {
	t.Helper()
	gap, overlap, _ := strings.Cut(change, " ")
	h := &history{line: line, policy: policy, change: change}
	h.world = newWorld(t, func(s *batchv1.CronJobSpec) {
		s.Schedules, s.TimeZone, s.ClockChange = []string{line}, zone, batchv1.ClockChange{Gap: gap, Overlap: overlap}
		s.Concurrency.Policy = policy
		if policy == "Queue" {
			most := int32(burstWaits)
			s.Concurrency.Max = &most
		}
	})
	if line == burst {
		h.takes = burstTakes
	}
	if line == withSeconds {
		h.takes = 5 * time.Second
	}
	h.times = slices.DeleteFunc(clock.Line(line).Times(gap, overlap), func(at time.Time) bool { return !at.After(begin) })
	h.want = oracle.Begun(h.times, policy, burstWaits, h.takes)
	return h
}

// check compares the runs that there were with those of the oracle. Each is counted once.
func (h *history) check() {
	h.t.Helper()
	if got := h.world.times(); !slices.EqualFunc(got, h.want, time.Time.Equal) {
		h.t.Errorf("%s under %s and %s: %d runs, want %d of %d times", h.line, h.policy, h.change, len(got), len(h.want),
			len(h.times))
	}
	if c := h.cj.Status.Counts; c.Started != int64(len(h.want)) || c.Started+c.Skipped != int64(len(h.times)) {
		h.t.Errorf("%s under %s and %s: the counts are %+v, want %d runs of %d times", h.line, h.policy, h.change, c,
			len(h.want), len(h.times))
	}
}

// A controller that is killed before, between and after its writes has created exactly the runs of an oracle after two
// years.
func TestRunsEqualTheOracleThoughControllersAreKilled(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		for n, change := range clockChanges {
			if n%3 != i%3 {
				// Which times a line has in each zone under each policy is for package cron to show.
				continue
			}
			cases := [][2]string{{nightly, "Allow"}, {burst, concurrency[1+(i+n)%3]}}
			if n == i%len(clockChanges) {
				cases = append(cases, [2]string{burst, "Allow"}, [2]string{withSeconds, "Allow"})
			}
			for _, c := range cases {
				h := newHistory(t, clock, zone, c[0], c[1], change)
				h.random = rand.New(rand.NewSource(int64(n + 10*i)))
				h.live(end.Add(-time.Second))
				h.random = nil
				h.turn()
				h.check()
			}
		}
	})
}

// Around each time, leaders are killed a second before it, at it and a second after it: each of these alone and
// together, before their first write and between the creation of the run and the status.
func TestLeadersKilledAroundEachTime(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		for _, line := range []string{nightly, burst, withSeconds} {
			h := newHistory(t, clock, zone, line, concurrency[i%len(concurrency)], clockChanges[i%len(clockChanges)])
			for n, at := range h.times {
				// Bits of killed say when leaders are, and writes after how many.
				killed, writes := 1+n%7, n/7%2
				h.live(at.Add(-2 * time.Second))
				for moment := range 3 {
					h.now = at.Add(time.Duration(moment-1) * time.Second)
					if killed>>moment&1 == 1 {
						h.killedTurn(writes)
					} else {
						h.turn()
					}
				}
				h.now = at.Add(2 * time.Second)
				h.turn()
			}
			h.live(end.Add(-time.Second))
			h.check()
		}
	})
}

// An old leader does not know that another one leads, and acts on what it read before the other one acted, or in the
// midst of that. What it would create exists, and its status is refused.
func TestAnOldLeaderBesideTheNewOne(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		refused := 0
		for _, line := range []string{nightly, burst, withSeconds} {
			h := newHistory(t, clock, zone, line, concurrency[(i+1)%len(concurrency)], clockChanges[i%len(clockChanges)])
			for n, at := range h.times {
				h.live(at.Add(-time.Second))
				h.now = at
				old, next := h.look(), h.look()
				switch n % 3 {
				case 0:
					// The new one has had its turn.
					h.act(next)
					h.act(old)
				case 1:
					// The old one creates, the new one has its turn, and the old one writes its status.
					status := old
					status.plan.create, status.plan.cancel, status.plan.remove = nil, nil, nil
					h.left = len(old.plan.create)
					h.act(old)
					h.left = never
					h.act(next)
					h.act(status)
				case 2:
					// The old one is through before the new one acts on what it has read.
					h.act(old)
					h.act(next)
				}
				h.now = at.Add(time.Second)
				h.turn()
			}
			h.live(end.Add(-time.Second))
			h.check()
			refused += h.refused
		}
		if refused == 0 {
			t.Error("no leader came too late")
		}
	})
}
