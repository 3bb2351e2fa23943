// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/cron"
	"github.com/zeroinfra/platform-core/sdk/cron/oracle"
)

var zones = []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is an Application with one schedule, an operator with a clock, and what the operator made.
type world struct {
	t   *testing.T
	app *platformv1.Application
	now time.Time
	// there are the latest Operations; history has no more of them.
	there []scheduling.Made
	// ever are the names of all Operations that were made.
	ever map[string]bool
	// times of the Operations in the order in which they were made.
	times []time.Time
	// plans counts the turns, and writes those that had something to make or to remember.
	plans, writes int
	disrupts      bool
	crash         func() bool
}

func newWorld(t *testing.T, zone, line string) *world {
	w := &world{t: t, now: begin, ever: map[string]bool{}, disrupts: true, crash: func() bool { return false }}
	w.app = &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "redis-a"}}
	w.app.Spec.Schedules = []platformv1.Schedule{{
		Name: "it", Schedule: platformv1.CronLine(line), TimeZone: platformv1.TimeZone(zone),
		Operation: platformv1.ScheduledOperation{TemplateRef: "Restart"},
	}}
	return w
}

func (w *world) spec() *platformv1.Schedule { return &w.app.Spec.Schedules[0] }

// turn has the operator look at the Application once, and returns when it wants to look again.
func (w *world) turn() time.Time {
	w.t.Helper()
	w.plans++
	plan := scheduling.For(w.app, scheduling.Facts{Now: w.now, Operations: w.there,
		Templates: scheduling.Templates{Disrupts: func(string) bool { return w.disrupts }}})
	for _, run := range plan.Runs {
		if w.crash() {
			return w.now
		}
		made := scheduling.Made{Name: run.Name, Schedule: "it", Phase: scheduling.Finished}
		if slices.Contains(w.there, made) {
			continue
		}
		if w.ever[run.Name] {
			w.t.Fatalf("%s is made again", run.Name)
		}
		w.there, w.times, w.ever[run.Name] = append(w.there, made), append(w.times, run.Time), true
	}
	if w.crash() {
		return w.now
	}
	if text := plan.Records.String(); text != w.app.Annotations[platformv1.SchedulesAnnotation] {
		w.app.Annotations = map[string]string{platformv1.SchedulesAnnotation: text}
		w.writes++
		w.there = w.there[max(0, len(w.there)-2):]
	}
	if !plan.Next.After(w.now) && !plan.Next.IsZero() {
		w.t.Fatalf("at %s it is to look again at %s", w.now, plan.Next)
	}
	// What is shown must not depend on when one looks.
	shown := scheduling.Status(w.app, scheduling.Templates{Disrupts: func(string) bool { return w.disrupts }})[0]
	if plan.Next.IsZero() != (shown.NextTime == nil) || shown.NextTime != nil && !shown.NextTime.Time.Equal(plan.Next) {
		w.t.Fatalf("at %s it comes next at %s, and the status shows %v", w.now, plan.Next, shown.NextTime)
	}
	return plan.Next
}

// live has the operator be there until a time, sleeping from one time to the next.
func (w *world) live(until time.Time) {
	w.t.Helper()
	for next := w.turn(); next.Before(until); next = w.turn() {
		if !next.After(w.now) {
			continue // It crashed and is back.
		}
		w.now = next.Add(3 * time.Millisecond)
	}
	w.now = until
}

func same(t *testing.T, what string, got, want []time.Time) {
	t.Helper()
	if slices.EqualFunc(got, want, time.Time.Equal) {
		return
	}
	for i := range min(len(got), len(want)) {
		if !got[i].Equal(want[i]) {
			t.Fatalf("%s: %d were made, %d are right; number %d is %s, and should be %s", what, len(got), len(want), i, got[i],
				want[i])
		}
	}
	t.Fatalf("%s: %d were made, %d are right", what, len(got), len(want))
}

// walk returns for each of some lines when it comes after one moment and before another.
func walk(t *testing.T, zone string, after, until time.Time, lines []string) [][]time.Time {
	t.Helper()
	clock := oracle.NewClock(t, zone, after.Add(time.Minute), until)
	times := make([][]time.Time, len(lines))
	for i, line := range lines {
		times[i] = clock.Line(line).Times(string(cron.GapShift), string(cron.OverlapFirst))
	}
	return times
}

func TestEveryTimeOfTwoYearsOnce(t *testing.T) {
	lines := []string{"0 2 * * *", "30 2 * * 0", "15,45 0-3 * * *", "10 1 1-7 * 6", "0 20 * * 1-5"}
	for _, name := range zones {
		until := begin.AddDate(2, 0, 0)
		for i, want := range walk(t, name, begin, until, lines) {
			w := newWorld(t, name, lines[i])
			w.live(until)
			same(t, lines[i]+" in "+name, w.times, want)
			// One turn for each, the first, and none between; one write for each and for the first.
			if w.plans != len(want)+1 || w.writes != len(want)+1 {
				t.Errorf("%s in %s: %d turns and %d writes for %d times", lines[i], name, w.plans, w.writes, len(want))
			}
		}
	}
}

// An operator that is away again and again, for minutes to months, and that crashes before any of its effects.
func TestOutagesAndCrashesAgainstTheOracle(t *testing.T) {
	const limit = 3
	lines := []string{"0 2 * * *", "15,45 0-3 * * 0", "30 * * 3,4,9,10,11 *"}
	until := begin.AddDate(2, 0, 0)
	for _, name := range zones {
		// The last outage may end later.
		for i, times := range walk(t, name, begin, until.AddDate(0, 6, 0), lines) {
			for _, policy := range []platformv1.MissedRuns{platformv1.MissedSkip, platformv1.MissedLatest,
				platformv1.MissedAll} {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				w := newWorld(t, name, lines[i])
				w.spec().MissedRuns, w.spec().MissedLimit, w.spec().Concurrency = policy, new(int32(limit)),
					platformv1.ConcurrencyQueue
				w.crash = func() bool { return random.IntN(20) == 0 }
				w.live(begin.Add(time.Second))
				var want []time.Time
				from := begin
				for from.Before(until) {
					// There for a while, then away for another.
					leaves := from.Add(time.Duration(random.Int64N(int64(40 * 24 * time.Hour))))
					away := time.Duration(random.Int64N(int64(10 * time.Minute)))
					if random.IntN(2) == 0 {
						away = time.Duration(random.Int64N(int64(60 * 24 * time.Hour)))
					}
					back := leaves.Add(away)
					w.live(leaves)
					w.now = back
					// What it sees is settled in one turn, crashes aside.
					want = append(append(want, between(times, from, leaves)...),
						made(between(times, leaves, back), back, policy, limit)...)
					from = back
				}
				w.live(from.Add(time.Millisecond))
				same(t, lines[i]+" in "+name+" under "+string(policy), w.times, want)
			}
		}
	}
}

// between returns the times after one and up to another.
func between(times []time.Time, after, to time.Time) []time.Time {
	first := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(times, t, func(at, t time.Time) int {
			if at.After(t) {
				return 1
			}
			return -1
		})
		return i
	}
	return times[first(after):first(to)]
}

// made says which of the times that came while nobody was there are made when somebody is back.
func made(missed []time.Time, back time.Time, policy platformv1.MissedRuns, limit int) []time.Time {
	switch {
	case len(missed) == 0:
		return nil
	case policy == platformv1.MissedAll:
		return missed[max(0, len(missed)-limit):]
	case policy == platformv1.MissedLatest || back.Sub(missed[len(missed)-1]) <= 5*time.Minute:
		return missed[len(missed)-1:]
	}
	return nil
}

// With windows, all times that come to the same opening are one, the latest of them.
func TestWindowsHoldWhatDisrupts(t *testing.T) {
	until := begin.AddDate(1, 0, 0)
	const line, opens, open = "40 */7 * * *", "0 2 * * *", 3 * time.Hour
	for _, name := range zones {
		walked := walk(t, name, begin.AddDate(0, 0, -1), until, []string{line, opens})
		within, named := map[int64]bool{}, map[int64]bool{}
		for _, from := range walked[1] {
			for at := from; at.Before(from.Add(open)); at = at.Add(time.Minute) {
				within[at.Unix()] = true
			}
		}
		for _, at := range walked[0] {
			named[at.Unix()] = true
		}
		var want []time.Time
		var waits time.Time
		for at := begin.Add(time.Minute); at.Before(until); at = at.Add(time.Minute) {
			if named[at.Unix()] {
				waits = at
			}
			if !waits.IsZero() && within[at.Unix()] {
				want, waits = append(want, waits), time.Time{}
			}
		}
		w := newWorld(t, name, line)
		w.app.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{
			Schedule: opens, Duration: metav1.Duration{Duration: open}, TimeZone: platformv1.TimeZone(name),
		}}}
		w.live(until)
		same(t, "held in "+name, w.times, want)

		free := newWorld(t, name, line)
		free.app.Spec.Maintenance, free.disrupts = w.app.Spec.Maintenance, false
		free.live(until)
		same(t, "free in "+name, free.times, between(walked[0], begin, until.Add(-time.Second)))
	}
}
