// SPDX-License-Identifier: Apache-2.0

// Package runoracle says which times of a CronJob have a run, and when that begins. It shares no code with package
// cronjob, whose tests it is for.
package runoracle

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

const (
	// late is how much later than its time a run begins under the policy Skip for missed times.
	late = 5 * time.Minute
	// Cancelling is how long a run takes to end that is cancelled.
	Cancelling = time.Second
)

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
	// Deadline is how long after it is due the run of a time may begin; zero for no limit.
	Deadline time.Duration
	// Delay is how long after its time a run is due; nil when it is due at its time. It reaches no later time.
	Delay func(of time.Time) time.Duration
	// Needs of each run.
	Needs []Need
}

// String tells the rules apart in the messages of tests.
func (r Rules) String() string {
	text := fmt.Sprintf("%s, missed %s %d, deadline %s, delayed %t", r.Concurrency, r.Missed, r.Max, r.Deadline,
		r.Delay != nil)
	for _, n := range r.Needs {
		text += ", " + n.String()
	}
	return text
}

// Absence is a span in which nobody begins a run, both ends included. At its end somebody is there.
type Absence struct {
	From, To time.Time
	// Suspended tells the absence of a suspended CronJob from that of an operator.
	Suspended bool
}

// Run is a time that has a run, and when that begins.
type Run struct{ Of, Begins time.Time }

// Due is when the run of a time begins that nothing is in the way of.
func (r Rules) Due(of time.Time) time.Time {
	if r.Delay == nil {
		return of
	}
	return of.Add(r.Delay(of))
}

// Runs are those of some times, and how many of these passed by a suspended CronJob that does not make up for them.
// Absences are in their order, and each begins after the end of the one before it.
func (r Rules) Runs(times []time.Time, absences []Absence) (runs []Run, passed int) {
	c := &course{Rules: r, absences: absences}
	if r.Missed == "Skip" {
		passed = len(times)
		times = slices.DeleteFunc(slices.Clone(times), c.passes)
		passed -= len(times)
	}
	for len(times) > 0 {
		at := c.seen(r.Due(times[0]))
		n := 1
		for n < len(times) && !r.Due(times[n]).After(at) {
			n++
		}
		due := r.inTime(at, times[:n])
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
	slices.SortFunc(c.runs, func(a, b Run) int { return a.Of.Compare(b.Of) })
	return c.runs, passed
}

// inTime are those of the times that somebody sees together that are not too many and not too late. One that has no run
// replaces none.
func (r Rules) inTime(at time.Time, times []time.Time) []time.Time {
	most := 1
	if r.Missed == "All" {
		most = r.Max
	}
	times = times[max(0, len(times)-most):]
	return slices.DeleteFunc(slices.Clone(times), func(of time.Time) bool {
		if r.over(at, of) || r.Missed == "Skip" && at.Sub(r.Due(of)) > late {
			return true
		}
		v, _ := r.judge(at, of)
		return r.Concurrency == "Replace" && v == skips
	})
}

// over says whether the run of a time begins too late at a moment.
func (r Rules) over(at, of time.Time) bool { return r.Deadline > 0 && at.Sub(r.Due(of)) > r.Deadline }

// course of the runs.
type course struct {
	Rules
	absences []Absence
	runs     []Run
	// waiting are times that wait: for the end of the run that is under way until then, and for somebody who looks again.
	waiting   []time.Time
	end, look time.Time
}

// passes says whether the CronJob was suspended after a time had come and before its run was due, both included.
func (c *course) passes(of time.Time) bool {
	due := c.Due(of)
	i := sort.Search(len(c.absences), func(i int) bool { return !c.absences[i].To.Before(of) })
	for ; i < len(c.absences) && !c.absences[i].From.After(due); i++ {
		if c.absences[i].Suspended {
			return true
		}
	}
	return false
}

// seen is the first moment from another one on at which somebody is there.
func (c *course) seen(at time.Time) time.Time {
	i := sort.Search(len(c.absences), func(i int) bool { return !c.absences[i].To.Before(at) })
	if i < len(c.absences) && !c.absences[i].From.After(at) {
		return c.absences[i].To
	}
	return at
}

// take has times that are seen together begin, wait, or have no run.
func (c *course) take(at time.Time, times []time.Time) {
	busy := c.end.After(at) || len(c.waiting) > 0
	for i, of := range times {
		switch {
		case c.Concurrency == "Allow":
			c.alone(at, of)
			continue
		case c.Concurrency == "Forbid" && busy, c.Concurrency == "Queue" && len(c.waiting) >= c.Most:
			continue
		case c.Concurrency == "Replace" && i < len(times)-1:
			// It is replaced before it begins.
			continue
		}
		c.waiting, c.look = append(c.waiting, of), at
		c.advance(at)
	}
}

// alone has the run of a time begin that waits for no other run.
func (c *course) alone(at, of time.Time) {
	for {
		v, until := c.judge(at, of)
		if v == begins {
			c.runs = append(c.runs, Run{of, at})
		}
		if v != waits {
			return
		}
		at = c.seen(until)
	}
}

// advance begins what waits and has its turn up to a moment, and leaves out what is too late by then.
func (c *course) advance(at time.Time) {
	for len(c.waiting) > 0 {
		now := c.look
		if c.Concurrency != "Replace" && c.end.After(now) {
			now = c.end
		}
		if now = c.seen(now); now.After(at) {
			break
		}
		c.turn(now)
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(of time.Time) bool { return c.over(at, of) })
}

// turn has the first of the times that wait begin if it can, and leaves those out that do not wait any more.
func (c *course) turn(now time.Time) {
	var left []time.Time
	c.look = now.AddDate(1, 0, 0)
	for _, of := range c.waiting {
		v, until := c.judge(now, of)
		switch {
		case c.end.After(now) && c.Concurrency != "Replace":
			left = append(left, of)
		case v == skips:
		case v == waits || len(left) > 0:
			left, c.look = append(left, of), earliest(c.look, until)
		case c.end.After(now):
			// The run that is under way is cancelled.
			c.end = earliest(c.end, now.Add(Cancelling))
			left, c.look = append(left, of), c.end
		default:
			c.runs, c.end = append(c.runs, Run{of, now}), now.Add(c.Takes)
			c.look = now
		}
	}
	c.waiting = left
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
