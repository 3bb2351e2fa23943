// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Plan decides what to do now.
func Plan(f Facts, m *Memory) Decision {
	m.reset(f.Record)
	if f.Record.Founding() {
		return f.bootstrap()
	}
	if promised := f.promised(); promised > f.Record.Term {
		// The record is older than the members, for example after a restore of etcd. A stale read has the same effect; then
		// the write is rejected.
		d := Decision{State: Changing, Message: fmt.Sprintf("members know of term %d, which is later than that of the "+
			"record: the record is brought up to it",
			promised)}
		f.recoverTerm(&d, f.Record, promised)
		return d
	}
	if f.Record.Primary == nil {
		return f.electPrimary(m)
	}
	return f.reconcilePrimary(m)
}

// bootstrap writes the first record of the set, or of its new volumes.
func (f *Facts) bootstrap() Decision {
	d := Decision{State: Starting}
	var members []permission.Member
	for i, name := range f.Wanted {
		p := f.pod(name)
		if i > 0 && f.Record.Term > 0 && p != nil && p.WithoutVolume {
			// The first pod has the data of these volumes, and this pod has no volume with other data.
			continue
		}
		if p == nil || p.Presence != Alive || p.Member.Identity == "" {
			d.Message = fmt.Sprintf("the first primary is named once all %d pods are there: waiting for %s",
				len(f.Wanted), name)
			return d
		}
		member, _ := p.member()
		members = append(members, member)
	}
	if len(members) == 0 {
		return d
	}
	d.Message = "the first primary is being named"
	// A promised term that the record already has does not prove that there was a primary.
	promised, known := f.promised(), f.Record.Term
	if promised <= known {
		// The others become members when they are in sync.
		members = members[:1]
	}
	first, err := f.Record.Bootstrap(members)
	if err == nil && promised > known {
		f.recoverTerm(&d, first, promised)
		return d
	}
	if err == nil {
		first, err = first.Name(members[0])
	}
	if err != nil {
		d.Message = err.Error()
		return d
	}
	d.write(Step{Record: first, Former: first.Primary}, "all pods are there for the first time")
	return d
}

// recoverTerm continues from a later term than the record's, which volumes have. The primary of that term is named
// again if it exists: its data is the latest, and no other member can hold a write lease of its term.
func (f *Facts) recoverTerm(d *Decision, next permission.Record, promised int64) {
	next.Term, next.Primary = max(promised+1, next.Term), nil
	// The former primary is not known: only promises and the expiry of leases prove then that there is none.
	var former *permission.Member
	for _, p := range f.Pods {
		if member, known := p.member(); known && p.Presence == Alive && p.Member.Term == promised && next.Eligible(member) {
			next.Primary, next.Previous, former = &member, nil, &member
		}
	}
	change := &Change{Cause: Recovered, Why: fmt.Sprintf("volumes know of term %d", promised)}
	d.write(Step{Record: next, Former: former, Unlabel: f.labelledPod(), Change: change}, "%s", change.Why)
}

// promised returns the highest term that a pod has promised. Terms that exceed the record's by more than
// permission.MaxJump are ignored as invalid.
func (f *Facts) promised() int64 {
	highest := int64(0)
	for _, p := range f.Pods {
		said := max(p.Member.Promised, p.Member.Term)
		if f.Record.Term == 0 || said-f.Record.Term <= permission.MaxJump {
			highest = max(highest, said)
		}
	}
	return highest
}

// labelledPod returns the name of a pod with the primary label; empty if there is none.
func (f *Facts) labelledPod() string {
	for _, p := range f.Pods {
		if p.HasPrimaryLabel {
			return p.Name
		}
	}
	return ""
}

// reconcilePrimary plans for a set with a named primary.
func (f *Facts) reconcilePrimary(m *Memory) Decision {
	primary := f.pod(f.Record.Primary.Name)
	if primary != nil && primary.HasPrimaryLabel && primary.is(*f.Record.Primary) {
		m.seenWriting = true
		if primary.Member.Writing && primary.Health == report.Healthy && primary.History != "" {
			m.recordHistory(primary.History)
		}
	}
	if primary != nil && f.Record.Previous != nil && primary.is(*f.Record.Primary) {
		if next := f.Record.Confirm(primary.Member.Term, primary.Member.ListVersion); next.Previous == nil {
			d := Decision{State: Steady}
			d.write(Step{Record: next, Former: f.Record.Primary}, "%s applies list %d", primary.Name, next.List.Version)
			return d
		}
	}
	d := f.checkPrimary(m, primary)
	if len(d.Steps) == 0 || d.Steps[0].Action != Write {
		if d.State == Steady {
			f.changeList(m, primary, &d)
		}
	}
	if len(d.Steps) == 0 || d.Steps[0].Action != Write {
		f.tellRecord(m, &d)
	}
	return d
}

// checkPrimary decides whether the primary stays, hands over, or is replaced by a failover.
func (f *Facts) checkPrimary(m *Memory, primary *Pod) Decision {
	d := Decision{State: Steady}
	f.expirePause(m, &d)
	why, at := f.primaryFailure(m, primary, &d)
	if why != "" && !f.isSwitchoverPaused(m, primary) {
		d.State, d.Message = Down, why
		if m.seenWriting || at <= f.Now {
			d.State = Down
		} else {
			d.State = Starting
		}
		if f.isOnlyPod(primary) && !f.isTakeOverOrdered() {
			// There is no other pod that could take over. The conditions of the pod say what is wrong.
			d.Message = ""
			m.restoreLabels()
			return d
		}
		if f.Mode == Manual && (f.Order == nil || f.Order.Way == HandOver) {
			m.restoreLabels()
			d.Message += "; failover.mode is Manual, so that the operator has no other pod take over: " + howToSwitch
			if f.Order != nil {
				d.Refused = d.Message
			}
			return d
		}
		if f.Now < at && !f.isTakeOverOrdered() {
			f.prepareFailover(m, &d, primary, at)
			return d
		}
		return f.failOver(m, d, why)
	}
	if f.Order != nil {
		return f.executeSwitchover(m, d, primary)
	}
	m.restoreLabels()
	return d
}

// prepareFailover looks for a candidate, and removes the primary label, before the failover that is due at a time.
func (f *Facts) prepareFailover(m *Memory, d *Decision, primary *Pod, at time.Duration) {
	d.wakeAt(at)
	// The first half of the time is for a restart in place, during which the Service selects the primary.
	if soon := at - min(proxyPeriod, f.After/2); f.Now < soon {
		d.wakeAt(soon)
		return
	}
	switch best, _ := f.takeoverCandidate(m, d); {
	case best != nil:
		f.removePrimaryLabel(m, primary)
	case !d.measuring:
		m.restoreLabels()
	}
}

// removePrimaryLabel removes the primary's Service label before it is deposed.
func (f *Facts) removePrimaryLabel(m *Memory, primary *Pod) {
	if m.labelRemovedAt == 0 && primary != nil && primary.HasPrimaryLabel {
		m.labelRemovedAt = f.Now
	}
}

// isOnlyPod says whether the primary is the only wanted pod, and exists with its volume.
func (f *Facts) isOnlyPod(primary *Pod) bool {
	return primary != nil && primary.Presence == Alive && primary.is(*f.Record.Primary) && len(f.Wanted) == 1 &&
		f.Wanted[0] == primary.Name
}

// isSwitchoverPaused says whether the primary is paused for a switchover, which looks like a failure.
func (f *Facts) isSwitchoverPaused(m *Memory, primary *Pod) bool {
	return f.Order != nil && primary != nil && m.pause.held != 0 && m.pause.failed == 0
}

// howToSwitch tells a person how to change the primary.
const howToSwitch = "run an Operation of template Failover"

// isTakeOverOrdered says whether an order asks for a failover at once.
func (f *Facts) isTakeOverOrdered() bool { return f.Order != nil && f.Order.Way == TakeOver }

// acceptsLoss says whether the order accepts a loss of data.
func (f *Facts) acceptsLoss() bool { return f.Order != nil && f.Order.Loss == Accepted }

// primaryFailure returns what is wrong with the primary, and from when that justifies a failover; empty if nothing is
// wrong.
func (f *Facts) primaryFailure(m *Memory, primary *Pod, d *Decision) (why string, at time.Duration) {
	name := f.Record.Primary.Name
	grace := f.After
	if !m.seenWriting {
		grace = firstWriteTimeout
	}
	since := func() time.Duration {
		f.resumeDowntime(m)
		if m.downSince == 0 {
			m.downSince = f.Now
			if primary != nil && primary.Health == report.Unhealthy {
				failed := min(max(primary.FailedFor, 0), grace)
				if !m.seenWriting {
					// The time before it was named does not count.
					failed = min(failed, f.NamedFor)
				}
				m.downSince = max(f.Now-failed, 1)
			}
		}
		if m.seenWriting {
			return m.downSince + grace
		}
		// It may have written before this engine started.
		return min(m.downSince+grace, max(f.Now-f.NamedFor+firstWriteTimeout, m.downSince+f.After))
	}
	switch {
	case primary == nil:
		return fmt.Sprintf("pod %s, the primary, is gone", name), since()
	case primary.Presence == Leaving:
		return fmt.Sprintf("pod %s, the primary, is being deleted", name), f.Now
	case primary.Member.Identity != "" && !primary.is(*f.Record.Primary):
		return fmt.Sprintf("pod %s, the primary, has another volume", name), f.Now
	case primary.Presence == Unreachable:
		return fmt.Sprintf("pod %s, the primary, is on an unreachable node", name), f.Now
	case f.isPrimarySuspected() && f.isPrimaryUnreachable(m, primary, d):
		return fmt.Sprintf("pod %s, the primary, is unreachable for its replicas and for the operator", name),
			f.Now
	case !primary.Member.Writing || primary.Health == report.Unhealthy || primary.Health == report.Stopped:
		return fmt.Sprintf("the process of pod %s, the primary, is down", name), since()
	case m.seenWriting && primary.Health != report.Healthy && !primary.OutOfConnections:
		return fmt.Sprintf("the process of pod %s, the primary, has not started yet", name), f.startDeadline(m, since)
	case !m.seenWriting && primary.NotWritingReason != "":
		return fmt.Sprintf("pod %s is named as the primary and does not take writes yet: %s", name,
			primary.NotWritingReason), since()
	}
	m.startingSince = 0
	switch {
	case !m.seenWriting:
		m.downSince, m.wellSince = 0, 0
	case m.downSince != 0 && m.wellSince == 0:
		m.wellSince = f.Now
	}
	return "", 0
}

// startDeadline returns when a starting primary counts as failed. The downtime before the start counts. Without any, it
// may be the agent that has restarted and has not probed the process yet.
func (f *Facts) startDeadline(m *Memory, down func() time.Duration) time.Duration {
	if m.downSince != 0 {
		return down()
	}
	if m.startingSince == 0 {
		m.startingSince = f.Now
	}
	return m.startingSince + max(firstWriteTimeout, f.After)
}

// resumeDowntime continues the downtime of a primary that fails again, unless it was healthy for as long as After: a
// process in a crash loop does not get After again each time. Healthy periods shorter than half of After count as
// downtime.
func (f *Facts) resumeDowntime(m *Memory) {
	well := f.Now - m.wellSince
	switch {
	case m.wellSince == 0:
	case well >= f.After:
		m.downSince = 0
	case well >= f.After/2:
		m.downSince += well
	}
	m.wellSince = 0
}

// isPrimarySuspected says whether a member has not been asked for an acknowledgement for a while.
func (f *Facts) isPrimarySuspected() bool {
	return slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return p.SuspectsPrimary && p.Presence == Alive && p.Name != f.Record.Primary.Name &&
			f.Record.List.Has(permission.Member{Name: p.Name, Identity: p.Member.Identity})
	})
}

// isPrimaryUnreachable says whether the agent of the primary does not answer. It is asked first.
func (f *Facts) isPrimaryUnreachable(m *Memory, primary *Pod, d *Decision) bool {
	if answer, counts := m.answer(primary.Name, f.Now); counts {
		d.wakeAt(answer.At + maxAnswerAge)
		// An agent that refuses the call is alive, for example one that does not accept the certificate.
		return answer.Problem != "" && !answer.Alive()
	}
	d.add(Step{Action: Ask, Pod: primary.Name}, "a follower has not been asked for a while")
	return false
}

// failOver deposes the primary when there is a candidate.
func (f *Facts) failOver(m *Memory, d Decision, why string) Decision {
	best, problem := f.takeoverCandidate(m, &d)
	if best == nil {
		if !d.measuring {
			m.restoreLabels()
		}
		d.Message = fmt.Sprintf("%s, and no other pod can take over: %s%s", why, problem, f.noCandidateReason())
		if f.isTakeOverOrdered() && !d.measuring {
			d.Refused = d.Message
		}
		return d
	}
	change := &Change{Cause: Failed, Why: why}
	if f.Mode == Manual || f.isTakeOverOrdered() {
		change.By = f.Order.By
	}
	d.State, d.Message = Changing, fmt.Sprintf("%s: %s is to take over", why, best.Name)
	d.write(Step{Record: f.Record.Depose(), Former: f.Record.Primary, Unlabel: f.Record.Primary.Name, Change: change},
		"%s, and %s can take over", why, best.Name)
	return d
}

// takeoverCandidate returns the candidate for a failover. Where a person decides, it is the pod that the order names.
func (f *Facts) takeoverCandidate(m *Memory, d *Decision) (*Pod, string) {
	if f.Mode == Manual || f.isTakeOverOrdered() {
		return f.orderedCandidate(m, d)
	}
	return f.candidate(m, d, *f.Record.Primary)
}

// dataLossReason returns why a candidate may lack too much data; empty if it does not.
func (f *Facts) dataLossReason(have Measurement) string {
	switch {
	case f.acceptsLoss():
	case have.Problem != "":
		return "cannot be measured: " + have.Problem
	case f.MaxLag != nil && have.Lag == nil:
		return "does not say how far it is behind, and failover.maxLag is set"
	case f.MaxLag != nil && *have.Lag > *f.MaxLag:
		return fmt.Sprintf("is %d bytes behind, and failover.maxLag is %d", *have.Lag, *f.MaxLag)
	}
	return ""
}

// outranks says whether one candidate is better than another.
func (f *Facts) outranks(m *Memory, p *Pod, have Measurement, best *Pod, measurement Measurement) bool {
	ours, theirs := have.follows(m.history), measurement.follows(m.history)
	switch {
	case f.acceptsLoss() && (f.prefers(p) || f.prefers(best)):
		return f.prefers(p)
	case have.Problem != "" || measurement.Problem != "":
		// A loss is accepted here: a candidate with a measurement is better than one without.
		return have.Problem == ""
	case have.descends(measurement):
		return true
	case measurement.descends(have):
		return false
	case m.later(have, measurement) != m.later(measurement, have):
		return m.later(have, measurement)
	case ours != theirs:
		return ours
	}
	return have.Order > measurement.Order || have.Order == measurement.Order && f.prefers(p)
}

// askAgain repeats a call to a pod that did not answer, with backoff.
func (f *Facts) askAgain(m *Memory, d *Decision, p *Pod) {
	at, isDue := due(m.answers[p.Name].At, true, f.Now, m.pace(p.Name, retryInterval))
	if isDue {
		d.add(Step{Action: Ask, Pod: p.Name}, "it may take over, and did not answer")
	}
	d.wakeAt(max(at, f.Now+retryInterval))
}

// prefers says whether the order names a pod.
func (f *Facts) prefers(p *Pod) bool { return f.Order != nil && f.Order.To == p.Name }

// measure returns a recent measurement of a pod, or adds a step for one; then pending is true.
func (f *Facts) measure(m *Memory, d *Decision, p *Pod) (have Measurement, pending bool) {
	if f.Measures == FromReports {
		return p.Measurement, false
	}
	interval := maxAnswerAge
	last, known := m.measures[p.Name]
	if last.Problem != "" {
		interval = retryInterval
	}
	at, isDue := due(last.at, known && last.at >= m.settled, f.Now, interval)
	if isDue {
		d.add(Step{Action: Measure, Pod: p.Name}, "it may take over")
	} else {
		d.wakeAt(at)
	}
	// A failed measurement counts only after some attempts.
	if isDue || last.Problem != "" && m.failures[p.Name] < maxMisses {
		d.measuring = true
		return Measurement{}, true
	}
	return last.Measurement, false
}

// tellRecord sends the record to the pods that do not have it.
func (f *Facts) tellRecord(m *Memory, d *Decision) {
	for _, p := range f.Pods {
		if p.Presence != Alive || p.Member.Identity == "" || f.knowsRecord(m, p) {
			continue
		}
		last, told := m.told[p.Name]
		at, isDue := due(last, told, f.Now, m.pace(p.Name, maxAnswerAge))
		if isDue {
			d.add(Step{Action: Tell, Pod: p.Name}, "it does not know term %d, list %d", f.Record.Term, f.Record.List.Version)
		}
		d.wakeAt(max(at, f.Now+retryInterval))
	}
}

// knowsRecord says whether a pod has the record, by its report or by its acknowledgement.
func (f *Facts) knowsRecord(m *Memory, p Pod) bool {
	k, primary := p.Member, f.Record.Primary
	if m.acknowledged[p.Name] == (acknowledgedRecord{k.Identity, f.Record.List.Version}) {
		return true
	}
	if !p.is(*primary) {
		return k.Promised == f.Record.Term && k.Primary == primary.Name
	}
	return k.Promised == f.Record.Term && k.Term == f.Record.Term && k.ListVersion == f.Record.List.Version
}
