// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/sdk/cron/oracle"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/cronjob/runoracle"
)

const (
	// burst is a line with more times an hour than runs of such a length leave room for, on days that clocks are changed
	// and on others. No run ends within a minute of a time: those of a controller that was killed begin some seconds
	// later.
	burst = "10,50 1-3 * * SUN,WED"
	// burstWaits is how many of its times may wait.
	burstWaits = 2
	// dense has times every two minutes, in a night of each week.
	dense = "*/2 2,3 * * TUE"
	// nightly is within the hour that most clocks leave out, and withSeconds as well.
	nightly     = "30 2 * * *"
	withSeconds = "20,40 30 2 * * SUN"
)

var (
	// lengths of the runs of some lines; those of the others take a minute.
	lengths = map[string]time.Duration{
		burst: 47*time.Minute + 13*time.Second, dense: 217 * time.Second, withSeconds: 5 * time.Second,
	}
	end          = begin.AddDate(2, 0, 0)
	concurrency  = []string{"Allow", "Forbid", "Replace", "Queue"}
	clockChanges = []string{"Shift First", "Shift Last", "Shift Both", "Skip First", "Skip Last", "Skip Both"}
)

// clocks of zones and lines of clocks, which take longer to compute than most tests.
var clocks, lines sync.Map

// lineOf finds the times that a line names.
func lineOf(clock *oracle.Clock, line string) oracle.Line {
	type key struct {
		clock *oracle.Clock
		line  string
	}
	found, known := lines.Load(key{clock, line})
	if !known {
		found = clock.Line(line)
		lines.Store(key{clock, line}, found)
	}
	return found.(oracle.Line)
}

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
	line, change string
	rules        runoracle.Rules
	times        []time.Time
	// moments at which the runs of the times are due.
	moments []time.Time
	want    []runoracle.Run
	// passed is how many times go by without being counted.
	passed int
}

// newHistory has a line under the policies of some rules, which it fills in.
func newHistory(t *testing.T, clock *oracle.Clock, zone, line, change string, rules runoracle.Rules) *history {
	t.Helper()
	gap, overlap, _ := strings.Cut(change, " ")
	h := &history{line: line, change: change, rules: rules}
	h.world = newWorld(t, func(s *batchv1.CronJobSpec) {
		s.Schedules, s.TimeZone, s.ClockChange = []string{line}, zone, batchv1.ClockChange{Gap: gap, Overlap: overlap}
		s.Concurrency.Policy, s.MissedRuns.Policy = rules.Concurrency, rules.Missed
		if rules.Concurrency == "Queue" {
			most := int32(burstWaits)
			s.Concurrency.Max = &most
		}
		if rules.Missed == "All" {
			most := int32(rules.Max)
			s.MissedRuns.Max = &most
		}
		if rules.Deadline > 0 {
			s.StartingDeadline = duration(rules.Deadline)
		}
	})
	if takes := lengths[line]; takes > 0 {
		h.takes = takes
	}
	h.times = slices.DeleteFunc(lineOf(clock, line).Times(gap, overlap),
		func(at time.Time) bool { return !at.After(begin) })
	h.rules.Most, h.rules.Takes = burstWaits, h.takes
	h.expect(nil)
	return h
}

// expect has the oracle say which runs there are with some absences.
func (h *history) expect(absences []runoracle.Absence) {
	h.moments = nil
	for _, at := range h.times {
		h.moments = append(h.moments, h.rules.Due(at))
	}
	h.want, h.passed = h.rules.Runs(h.times, absences)
}

// check compares the runs that there were with those of the oracle. Each is counted once.
func (h *history) check() {
	h.t.Helper()
	var want []time.Time
	for _, r := range h.want {
		want = append(want, r.Of)
	}
	if got := h.world.times(); !slices.EqualFunc(got, want, time.Time.Equal) {
		h.t.Errorf("%s under %v and %s: %d runs, want %d of %d times; %s", h.line, h.rules, h.change, len(got),
			len(want), len(h.times), difference(got, want))
	}
	if c := h.cj.Status.Counts; c.Started != int64(len(h.want)) ||
		c.Started+c.Skipped+int64(h.passed) != int64(len(h.times)) {
		h.t.Errorf("%s under %v and %s: the counts are %+v, want %d runs of %d times, %d of which passed", h.line, h.rules,
			h.change, c, len(h.want), len(h.times), h.passed)
	}
	h.checkMoments()
}

// checkMoments checks that no run begins before it is due or beyond its deadline, and none beside another one.
func (h *history) checkMoments() {
	h.t.Helper()
	var moments []time.Time
	for _, of := range h.order {
		at := h.created[nameOf(h.cj, of)]
		if since := at.Sub(h.rules.Due(of)); since < 0 || h.rules.Deadline > 0 && since > h.rules.Deadline {
			h.t.Errorf("%s under %v and %s: the run of %s began %s after it was due", h.line, h.rules, h.change, of, since)
		}
		moments = append(moments, at)
	}
	slices.SortFunc(moments, time.Time.Compare)
	for i := 1; i < len(moments); i++ {
		alone := h.rules.Concurrency == "Forbid" || h.rules.Concurrency == "Queue"
		if alone && moments[i].Sub(moments[i-1]) < h.takes {
			h.t.Errorf("%s under %v and %s: a run began at %s, beside the one of %s", h.line, h.rules, h.change, moments[i],
				moments[i-1])
		}
	}
}

// difference tells the first run that there is on one side only.
func difference(got, want []time.Time) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want) || i < len(got) && got[i].Before(want[i]):
			return fmt.Sprintf("the first that is too much is for %s", got[i])
		case i >= len(got) || got[i].After(want[i]):
			return fmt.Sprintf("the first that is missing is for %s", want[i])
		}
	}
	return "they are the same"
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
				h := newHistory(t, clock, zone, c[0], change, runoracle.Rules{Concurrency: c[1]})
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
			h := newHistory(t, clock, zone, line, clockChanges[i%len(clockChanges)],
				runoracle.Rules{Concurrency: concurrency[i%len(concurrency)]})
			h.killAround()
			h.live(end.Add(-time.Second))
			h.check()
		}
	})
}

// killAround has leaders killed around each moment that is at least 4 seconds after the one before.
func (h *history) killAround() {
	h.t.Helper()
	for n, at := range h.moments {
		if n > 0 && at.Sub(h.moments[n-1]) < 4*time.Second {
			continue
		}
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
}

// An old leader does not know that another one leads, and acts on what it read before the other one acted, or in the
// midst of that. What it would create exists, and its status is refused.
func TestAnOldLeaderBesideTheNewOne(t *testing.T) {
	inEachZone(t, func(t *testing.T, i int, zone string, clock *oracle.Clock) {
		refused := 0
		for _, line := range []string{nightly, burst, withSeconds} {
			h := newHistory(t, clock, zone, line, clockChanges[i%len(clockChanges)],
				runoracle.Rules{Concurrency: concurrency[(i+1)%len(concurrency)]})
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
