// SPDX-License-Identifier: Apache-2.0

// Package runoracle says which times of a CronJob have a run. It shares no code with package cronjob, whose tests it is
// for.
package runoracle

import (
	"slices"
	"sort"
	"time"
)

// late is how much later than its time a run begins under the policy Skip for missed times.
const late = 5 * time.Minute

// Rules say which times of a CronJob have a run.
type Rules struct {
	// Concurrency is the policy for a time that comes while a run is under way. Each takes as long as Takes, and at most
	// Most times wait under Queue.
	Concurrency string
	Most        int
	Takes       time.Duration
	// Missed is the policy for times at which nobody was there. All makes up for Max of them.
	Missed string
	Max    int
	// Deadline is how long after its time a run may begin; zero for no limit.
	Deadline time.Duration
}

// Absence is a span in which nobody begins a run, both ends included. At its end somebody is there.
type Absence struct {
	From, To time.Time
	// Suspended tells the absence of a suspended CronJob from that of an operator.
	Suspended bool
}

// Runs are those of some times that have a run, and how many passed by a suspended CronJob that does not make up for
// them. Absences are in their order, and each begins after the end of the one before it.
func (r Rules) Runs(times []time.Time, absences []Absence) (begun []time.Time, passed int) {
	c := &course{Rules: r, absences: absences}
	for len(times) > 0 {
		at, suspended := c.seen(times[0])
		n := 1
		for n < len(times) && !times[n].After(at) {
			n++
		}
		due := r.inTime(at, times[:n])
		if suspended && r.Missed == "Skip" {
			passed, due = passed+n, nil
		}
		if r.Concurrency == "Replace" && len(due) > 0 {
			// What would begin now is replaced before it does.
			c.advance(at.Add(-1))
			c.waiting = nil
		}
		c.advance(at)
		c.take(at, due)
		times = times[n:]
	}
	for len(c.waiting) > 0 {
		c.advance(c.end.AddDate(1, 0, 0))
	}
	slices.SortFunc(c.begun, time.Time.Compare)
	return c.begun, passed
}

// inTime are those of the times that somebody sees together that are not too many and not too late.
func (r Rules) inTime(at time.Time, times []time.Time) []time.Time {
	most := 1
	if r.Missed == "All" {
		most = r.Max
	}
	times = times[max(0, len(times)-most):]
	return slices.DeleteFunc(slices.Clone(times), func(of time.Time) bool {
		return r.over(at, of) || r.Missed == "Skip" && at.Sub(of) > late
	})
}

// over says whether the run of a time begins too late at a moment.
func (r Rules) over(at, of time.Time) bool { return r.Deadline > 0 && at.Sub(of) > r.Deadline }

// course of the runs.
type course struct {
	Rules
	absences []Absence
	// begun are the times that had a run, waiting those that wait for the one that is under way until end.
	begun, waiting []time.Time
	end            time.Time
}

// seen is the first moment from another one on at which somebody is there, and whether the CronJob was suspended
// before.
func (c *course) seen(at time.Time) (time.Time, bool) {
	i := sort.Search(len(c.absences), func(i int) bool { return !c.absences[i].To.Before(at) })
	if i < len(c.absences) && !c.absences[i].From.After(at) {
		return c.absences[i].To, c.absences[i].Suspended
	}
	return at, false
}

// advance begins what waits and has its turn up to a moment, and leaves out what is too late by then.
func (c *course) advance(at time.Time) {
	for len(c.waiting) > 0 {
		turn, _ := c.seen(c.end)
		if turn.After(at) {
			break
		}
		first := c.waiting[0]
		c.waiting = c.waiting[1:]
		if !c.over(turn, first) {
			c.begin(turn, first)
		}
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(of time.Time) bool { return c.over(at, of) })
}

func (c *course) begin(at, of time.Time) { c.begun, c.end = append(c.begun, of), at.Add(c.Takes) }

// take has times that are seen together begin, wait, or have no run.
func (c *course) take(at time.Time, times []time.Time) {
	busy := c.end.After(at)
	for i, of := range times {
		switch {
		case c.Concurrency == "Allow":
			c.begun = append(c.begun, of)
		case c.Concurrency == "Replace" && i < len(times)-1:
			// It is replaced before it begins.
		case !c.end.After(at):
			c.begin(at, of)
		case c.Concurrency == "Replace":
			// The run that is under way is cancelled, which takes until somebody looks again.
			c.waiting, c.end = append(c.waiting, of), at.Add(time.Second)
		case c.Concurrency == "Queue" && len(c.waiting) < c.Most, c.Concurrency == "Forbid" && !busy:
			c.waiting = append(c.waiting, of)
		}
	}
}
