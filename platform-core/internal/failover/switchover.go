// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
)

// executeSwitchover carries out an order while the primary works.
func (f *Facts) executeSwitchover(m *Memory, d Decision, primary *Pod) Decision {
	f.handingOver = f.Handover == Declared && f.Measures == ByAction && !f.isTakeOverOrdered()
	best, problem := f.orderedCandidate(m, &d)
	if best == nil {
		d.Message = fmt.Sprintf("pod %s is to hand over, and no other can take over: %s", primary.Name, problem)
		if !d.measuring {
			d.Refused = d.Message
			m.restoreLabels()
		}
		return d
	}
	d.State, d.Message = Changing, fmt.Sprintf("%s hands over to %s", primary.Name, best.Name)
	step := Step{Record: f.Record.Depose(), Former: f.Record.Primary, Unlabel: primary.Name}
	change := &Change{Cause: Ordered, Why: fmt.Sprintf("pod %s was told to hand over", primary.Name), By: f.Order.By}
	if f.isTakeOverOrdered() {
		change.Cause, change.Why = Failed, fmt.Sprintf("another pod than %s was told to take over", primary.Name)
	} else if f.Handover == Declared {
		if !f.ensurePaused(m, &d, primary, best) {
			return d
		}
		step.Until = m.pause.began + pauseFor - pauseReserve
		if f.handingOver {
			member, _ := best.member()
			step.CaughtUp = &member
		}
	}
	why := "it was told to hand over to " + best.Name
	if f.isTakeOverOrdered() {
		why = fmt.Sprintf("%s, and %s can take over", change.Why, best.Name)
	}
	step.Change = change
	d.write(step, "%s", why)
	return d
}

// orderedCandidate returns the pod that the order names, or the best candidate.
func (f *Facts) orderedCandidate(m *Memory, d *Decision) (*Pod, string) {
	switch {
	case f.Order == nil || f.Order.To == "":
		return f.candidate(m, d, *f.Record.Primary)
	case f.Order.To == f.Record.Primary.Name:
		return nil, f.Order.To + " is the primary already"
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

// expirePause gives up a pause that has taken too long: the primary soon takes writes again.
func (f *Facts) expirePause(m *Memory, d *Decision) {
	p := &m.pause
	switch end := p.began + maxPause; {
	case p.attempt == 0 || p.failed != 0:
	case f.Now < end:
		d.wakeAt(end)
	case f.needsPrepare(p):
		// The pause begins without the proxies: clients notice it, but the switchover is not delayed.
		m.Prepared(p.attempt, f.Now)
		d.wakeAt(p.began + maxPause)
	case p.held == 0:
		m.Paused(p.attempt, f.Now, PauseFailed, "the pause takes too long")
	default:
		m.Paused(p.attempt, f.Now, PauseFailed, fmt.Sprintf("no other pod took over within %s", maxPause))
	}
}

// ensurePaused says whether the primary is paused and the candidate has all of its data. It adds the steps for that.
func (f *Facts) ensurePaused(m *Memory, d *Decision, primary, best *Pod) bool {
	p := &m.pause
	switch {
	case p.attempt == 0 || p.failed != 0 && f.Now-p.failed >= p.retryDelay():
		if !f.removeLabels(m, d, primary, best) {
			return false
		}
		// The time counts from before the call.
		*p = pause{attempt: p.attempt + 1, began: f.Now}
		f.expirePause(m, d)
	case p.failed != 0:
		m.restoreLabels()
		d.wakeAt(p.failed + p.retryDelay())
		d.Message = fmt.Sprintf("%s did not hand over to %s, and is asked again: %s", primary.Name, best.Name, p.problem)
		return false
	}
	switch {
	case f.needsPrepare(p):
		d.Steps = nil
		d.add(Step{Action: Prepare, Pod: primary.Name, To: best.Name, Attempt: p.attempt, Began: p.began},
			"clients of %s are to wait while %s takes over", primary.Name, best.Name)
		d.wakeAt(f.Now + pausePoll)
		return false
	case p.held == 0:
		d.Steps = nil
		d.add(Step{Action: Pause, Pod: primary.Name, To: best.Name, Attempt: p.attempt, Began: p.began},
			"it hands over to %s",
			best.Name)
		d.wakeAt(f.Now + pausePoll)
		return false
	case f.Measures == FromReports:
		return true
	}
	return f.reachedPrimary(m, d, primary, best)
}

// removeLabels says whether the labels have been removed for long enough to pause the primary. The candidate loses its
// replica label first, then the primary loses its own. Moving a candidate from one Service to another in one change
// would take kube-proxy two sync periods, of which the second one delays the new primary. With proxies in front of the
// set the labels stay: a proxy that cannot connect would back off.
func (f *Facts) removeLabels(m *Memory, d *Decision, primary, best *Pod) bool {
	if f.Before == SomeBefore {
		m.restoreLabels()
		return true
	}
	if m.unlabelledSince == 0 && best.HasRoleLabel || m.unlabelledSince != 0 && f.Now >= m.unlabelledSince+maxUnlabelled {
		m.unlabelledSince = f.Now
	}
	// The candidate may have changed; the wait does not begin again for that.
	m.candidate = best.Name
	until := m.unlabelledSince + proxyPeriod
	if m.unlabelledSince == 0 || f.Now >= until {
		f.removePrimaryLabel(m, primary)
		if until = m.labelRemovedAt + labelLead; m.labelRemovedAt == 0 || f.Now >= until {
			return true
		}
	}
	d.Steps = nil
	d.wakeAt(until)
	return false
}

// needsPrepare says whether proxies have still to prepare before the pause.
func (f *Facts) needsPrepare(p *pause) bool {
	return f.Before == SomeBefore && p.prepared == 0 && p.held == 0
}

// reachedPrimary says whether the candidate has all data of the paused primary. Orders of different histories cannot be
// compared.
func (f *Facts) reachedPrimary(m *Memory, d *Decision, primary, best *Pod) bool {
	have, want := m.measures[best.Name], m.measures[primary.Name]
	since := m.pause.held
	if want.at >= since && want.Problem == "" && have.at >= since && have.Problem == "" && have.History == want.History &&
		have.Order >= want.Order {
		return true
	}
	d.Steps = nil
	for _, pod := range []*Pod{primary, best} {
		last, known := m.measures[pod.Name]
		if _, isDue := due(last.at, known && last.at >= since, f.Now, pausePoll); isDue {
			d.add(Step{Action: Measure, Pod: pod.Name}, "the primary is paused")
		}
	}
	d.wakeAt(f.Now + pausePoll)
	return false
}

// retryDelay returns the backoff before the next attempt of a failed handover.
func (p *pause) retryDelay() time.Duration {
	return pauseAgain * time.Duration(min(p.attempt, maxPaceFactor))
}
