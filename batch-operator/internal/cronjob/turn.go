// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// dispatch begins the runs whose turn has come.
func (p *planner) dispatch() {
	var left []metav1.Time
	p.status.WaitingFor = ""
	waiting := p.status.Waiting
	for i, t := range p.turns() {
		switch at := waiting[i]; {
		case t.over != "":
			p.skip(at.Time, t.over)
		case t.waits != "":
			if len(left) == 0 {
				p.waitFor(at.Time, t.waits)
			}
			left = append(left, at)
			p.wakeAt(t.until)
		default:
			p.beginAt(at.Time)
		}
	}
	p.status.Waiting = left
}

// turn says whether the run of a time begins: where it is neither over nor waits.
type turn struct {
	// waits says what it waits for; empty when it does not wait.
	waits string
	// until is when to look again at the latest; zero for no limit.
	until time.Time
	// over says why the time is skipped; empty when it is not.
	over string
	// replaces says that it waits only for the runs under way that it replaces.
	replaces bool
}

// turns are those of the times that wait. Unless runs may be under way together, only the first that is not over can
// begin. Of those behind one that begins, only the deadline is looked at: their dependencies are when its run has
// ended.
func (p *planner) turns() []turn {
	all := make([]turn, 0, len(p.status.Waiting))
	begins, ahead := false, ""
	for _, at := range p.status.Waiting {
		t := p.withinDeadline(at.Time)
		if t.over == "" && !begins {
			t = p.turnOf(at.Time)
		}
		if t.over == "" && p.concurrency() != "Allow" {
			t.waits = cmp.Or(t.waits, ahead)
			begins, ahead = begins || t.waits == "", underWay
		}
		all = append(all, t)
	}
	return all
}

// withinDeadline is the turn of a time as far as its deadline goes.
func (p *planner) withinDeadline(at time.Time) turn {
	deadline := p.cj.Spec.StartingDeadline
	if deadline == nil {
		return turn{}
	}
	until := p.startOf(at).Add(deadline.Duration)
	if p.facts.now.After(until) {
		return turn{over: fmt.Sprintf("startingDeadline of %s is over", deadline.Duration)}
	}
	return turn{until: until.Add(time.Second)}
}

// turnOf is that of a time that no other one is ahead of.
func (p *planner) turnOf(at time.Time) turn {
	t := p.withinDeadline(at)
	if t.over != "" {
		return t
	}
	busy := len(p.status.Active) > 0 && p.concurrency() != "Allow"
	if busy && p.concurrency() != "Replace" {
		t.waits = underWay
		return t
	}
	for _, d := range p.cj.Spec.DependsOn {
		why, limit := p.unmet(d, at)
		switch {
		case why == "":
			continue
		case !p.facts.now.Before(limit) && d.Otherwise == batchv1.DependencyRun:
			continue
		case !p.facts.now.Before(limit):
			return turn{over: why}
		case t.until.IsZero() || limit.Before(t.until):
			t.until = limit
		}
		t.waits = cmp.Or(t.waits, why)
	}
	if busy && t.waits == "" {
		t.waits, t.replaces = underWay, true
	}
	return t
}

// unmet says why a dependency keeps the run of a time from beginning, and until when that waits; empty when it does
// not.
func (p *planner) unmet(d batchv1.Dependency, at time.Time) (why string, limit time.Time) {
	limit = p.startOf(at)
	if d.Timeout != nil {
		limit = limit.Add(d.Timeout.Duration)
	}
	key := dependencyOf(d)
	named := fmt.Sprintf("%s %q, which it depends on,", key.kind, d.Name)
	on := p.facts.dependencies[key]
	switch {
	case on == nil:
		return named + " does not exist", limit
	case d.Condition == batchv1.DependencyLastRunSucceeded:
		if on.success == nil || on.failure != nil && !on.failure.Before(on.success) {
			return named + " did not succeed the last time", limit
		}
	case d.Condition == batchv1.DependencySucceededSameDay:
		if on.success == nil || on.success.Time.Before(p.dayOf(at)) {
			return named + " did not succeed on the same day", limit
		}
	case d.Within != nil && (on.success == nil || on.success.Time.Before(at.Add(-d.Within.Duration))):
		return fmt.Sprintf("%s did not succeed within %s before", named, d.Within.Duration), limit
	}
	return "", limit
}

// dayOf is when the day of a time begins, in the time zone of the schedule.
func (p *planner) dayOf(at time.Time) time.Time {
	year, month, day := at.In(p.schedule.Zone()).Date()
	begins := time.Date(year, month, day, 0, 0, 0, 0, p.schedule.Zone())
	if begins.Day() != day {
		// The clocks leave out midnight: the day begins when they are put forward.
		_, begins = begins.ZoneBounds()
	}
	return begins
}

// giveUp skips the times that have waited too long, so that they are in the way of no other.
func (p *planner) giveUp() {
	var left []metav1.Time
	for i, t := range p.turns() {
		if at := p.status.Waiting[i]; t.over != "" {
			p.skip(at.Time, t.over)
		} else {
			left = append(left, at)
		}
	}
	p.status.Waiting = left
}

// leaving is how many of the times that wait do not wait any longer: they begin or are skipped now.
func (p *planner) leaving() int {
	n := 0
	for _, t := range p.turns() {
		if t.waits == "" {
			n++
		}
	}
	return n
}
