// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// obey carries out an order while the writer works.
func (f *Facts) obey(m *Memory, d Decision, writer *Pod) Decision {
	f.handing = f.Handover == Declared && f.Measures == ByAction && !f.takesOver()
	best, problem := f.chosen(m, &d)
	if best == nil {
		d.Message = fmt.Sprintf("pod %s is to hand over, and no other can take over: %s", writer.Name, problem)
		if !d.measuring {
			d.Refused = d.Message
			m.open()
		}
		return d
	}
	d.State, d.Message = Changing, fmt.Sprintf("%s hands over to %s", writer.Name, best.Name)
	step := Step{Record: f.Record.Depose(), Former: f.Record.Primary, Unlabel: writer.Name}
	change := &Change{Cause: Ordered, Why: fmt.Sprintf("pod %s was told to hand over", writer.Name), By: f.Order.By}
	if f.takesOver() {
		change.Cause, change.Why = Failed, fmt.Sprintf("another pod than %s was told to take over", writer.Name)
	} else if f.Handover == Declared {
		if !f.paused(m, &d, writer, best) {
			return d
		}
		step.Until = m.pause.began + pauseFor - pauseReserve
		if f.handing {
			member, _ := best.member()
			step.Vouched = &member
		}
	}
	why := "it was told to hand over to " + best.Name
	if f.takesOver() {
		why = fmt.Sprintf("%s, and %s can take over", change.Why, best.Name)
	}
	step.Change = change
	d.write(step, "%s", why)
	return d
}

// chosen is the pod of the order, or the best one.
func (f *Facts) chosen(m *Memory, d *Decision) (*Pod, string) {
	switch {
	case f.Order == nil || f.Order.To == "":
		return f.candidate(m, d, *f.Record.Primary)
	case f.Order.To == f.Record.Primary.Name:
		return nil, f.Order.To + " is the one that writes"
	case !slices.Contains(f.Wanted, f.Order.To):
		return nil, f.Order.To + " is no pod of the set"
	}
	var others []permission.Member
	for _, p := range f.Pods {
		if p.Name != f.Order.To {
			others = append(others, permission.Member{Name: p.Name})
		}
	}
	return f.candidate(m, d, others...)
}

// expire gives up a pause that is not over in time: the writer soon takes writes again.
func (f *Facts) expire(m *Memory, d *Decision) {
	p := &m.pause
	switch end := p.began + pausePatience; {
	case p.attempt == 0 || p.failed != 0:
	case f.Now < end:
		d.wakeAt(end)
	case f.prepares(p):
		// Clients notice, and the change is not kept waiting.
		m.Prepared(p.attempt, f.Now)
		d.wakeAt(p.began + pausePatience)
	case p.held == 0:
		m.Paused(p.attempt, f.Now, PauseFailed, "it takes too long to pause")
	default:
		m.Paused(p.attempt, f.Now, PauseFailed, fmt.Sprintf("nobody took over within %s", pausePatience))
	}
}

// paused says whether the writer takes no writes and the candidate has all that it has.
func (f *Facts) paused(m *Memory, d *Decision, writer, best *Pod) bool {
	p := &m.pause
	switch {
	case p.attempt == 0 || p.failed != 0 && f.Now-p.failed >= p.again():
		if !f.closes(m, d, writer, best) {
			return false
		}
		// The time counts from before the call.
		*p = pause{attempt: p.attempt + 1, began: f.Now}
		f.expire(m, d)
	case p.failed != 0:
		m.open()
		d.wakeAt(p.failed + p.again())
		d.Message = fmt.Sprintf("%s did not hand over to %s, and is asked again: %s", writer.Name, best.Name, p.problem)
		return false
	}
	switch {
	case f.prepares(p):
		d.Steps = nil
		d.add(Step{Action: Prepare, Pod: writer.Name, To: best.Name, Attempt: p.attempt, Began: p.began},
			"clients of %s are to wait while %s takes over", writer.Name, best.Name)
		d.wakeAt(f.Now + pausePoll)
		return false
	case p.held == 0:
		d.Steps = nil
		d.add(Step{Action: Pause, Pod: writer.Name, To: best.Name, Attempt: p.attempt, Began: p.began}, "it hands over to %s",
			best.Name)
		d.wakeAt(f.Now + pausePoll)
		return false
	case f.Measures == FromReports:
		return true
	}
	return f.caughtUp(m, d, writer, best)
}

// closes says whether Services have not led to the writer for long enough to pause it, and before that to the one that
// takes over, which would otherwise leave one Service for another in a single change: what leads clients there may see
// the first, and the second a proxyPeriod later. Those that clients come through go on to reach it until they have
// their clients wait: a connection that they cannot make would keep them from trying again for a while.
func (f *Facts) closes(m *Memory, d *Decision, writer, best *Pod) bool {
	if f.Before == SomeBefore {
		m.open()
		return true
	}
	if m.spared == 0 && best.Labelled || m.spared != 0 && f.Now >= m.spared+sparedFor {
		m.spared = f.Now
	}
	// Another one may be the best by now: the wait does not begin anew for that.
	m.heir = best.Name
	until := m.spared + proxyPeriod
	if m.spared == 0 || f.Now >= until {
		f.shut(m, writer)
		if until = m.shut + shutFor; m.shut == 0 || f.Now >= until {
			return true
		}
	}
	d.Steps = nil
	d.wakeAt(until)
	return false
}

// prepares says whether something has still to be done before the writer is paused.
func (f *Facts) prepares(p *pause) bool {
	return f.Before == SomeBefore && p.prepared == 0 && p.held == 0
}

// caughtUp says whether a candidate has all that the paused writer has. How far one is in another history says nothing.
func (f *Facts) caughtUp(m *Memory, d *Decision, writer, best *Pod) bool {
	have, want := m.measures[best.Name], m.measures[writer.Name]
	since := m.pause.held
	if want.at >= since && want.Problem == "" && have.at >= since && have.Problem == "" && have.History == want.History &&
		have.Order >= want.Order {
		return true
	}
	d.Steps = nil
	for _, pod := range []*Pod{writer, best} {
		last, known := m.measures[pod.Name]
		if _, isDue := due(last.at, known && last.at >= since, f.Now, pausePoll); isDue {
			d.add(Step{Action: Measure, Pod: pod.Name}, "the writer is paused")
		}
	}
	d.wakeAt(f.Now + pausePoll)
	return false
}

// again is how long a writer that did not hand over is left alone.
func (p *pause) again() time.Duration { return pauseAgain * time.Duration(min(p.attempt, slowest)) }
