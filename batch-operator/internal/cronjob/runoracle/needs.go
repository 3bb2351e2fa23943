// SPDX-License-Identifier: Apache-2.0

package runoracle

import (
	"fmt"
	"sort"
	"time"
)

// Need is a CronJob or Workflow that has to succeed before a run begins.
type Need struct {
	// Condition that has to hold: SucceededWithin, with Within, SucceededSameDay, with the Zone of days, or
	// LastRunSucceeded.
	Condition string
	Within    time.Duration
	Zone      *time.Location
	// Timeout is how long after it is due a run waits for the condition. Otherwise says what comes of it then: Skip or
	// Run.
	Timeout   time.Duration
	Otherwise string
	// Events are what happens to it, in their order, each at a second of its own.
	Events []Event
}

// String tells needs apart in the messages of tests.
func (n Need) String() string {
	return fmt.Sprintf("%s %s or %s after %s", n.Condition, n.Within, n.Otherwise, n.Timeout)
}

// Event is what happens to something that a run needs: it Succeeded, Failed, or is Gone. One that is gone exists again
// from the next event on, and of what happened before nothing is known.
type Event struct {
	At   time.Time
	What string
}

// known are the events up to a moment that count.
func (n Need) known(at time.Time) []Event {
	all := n.Events[:n.next(at)]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].What == "Gone" {
			return all[i+1:]
		}
	}
	return all
}

// next is the first event after a moment.
func (n Need) next(at time.Time) int {
	return sort.Search(len(n.Events), func(i int) bool { return n.Events[i].At.After(at) })
}

// Holds says whether the condition of the run of a time holds at a moment.
func (n Need) Holds(at, of time.Time) bool {
	known := n.known(at)
	if n.Condition == "LastRunSucceeded" {
		return len(known) > 0 && known[len(known)-1].What == "Succeeded"
	}
	for i := len(known) - 1; i >= 0; i-- {
		if known[i].What != "Succeeded" {
			continue
		}
		if n.Condition == "SucceededSameDay" {
			return n.day(known[i].At) >= n.day(of)
		}
		return of.Sub(known[i].At) <= n.Within
	}
	return false
}

// day of a moment, as a text that comes later in the alphabet than those of the days before.
func (n Need) day(at time.Time) string { return at.In(n.Zone).Format(time.DateOnly) }

// verdict on a time that nothing but its needs and its deadline is in the way of.
type verdict int

const (
	begins verdict = iota
	waits
	skips
)

// judge says what comes of a time at a moment, and until when that can change if it waits.
func (r Rules) judge(at, of time.Time) (v verdict, until time.Time) {
	if r.over(at, of) {
		return skips, at
	}
	until = at.AddDate(1, 0, 0)
	if r.Deadline > 0 {
		until = r.Due(of).Add(r.Deadline + time.Second)
	}
	for _, n := range r.Needs {
		if i := n.next(at); i < len(n.Events) {
			until = earliest(until, n.Events[i].At)
		}
		limit := r.Due(of).Add(n.Timeout)
		over := !at.Before(limit)
		switch {
		case n.Holds(at, of), over && n.Otherwise == "Run":
			continue
		case over:
			return skips, at
		}
		v, until = waits, earliest(until, limit)
	}
	return v, until
}
