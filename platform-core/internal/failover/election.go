// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// electPrimary names a primary for a term that has none.
func (f *Facts) electPrimary(m *Memory) Decision {
	d := Decision{State: Changing, Message: "there is no primary: a pod is about to take over"}
	if m.deposal == nil || m.deposal.Record.Term != f.Record.Term {
		m.setDeposal(&permission.Deposal{RecordedAt: f.Now})
	}
	m.deposal.Record = f.Record
	if former := f.Former; former != nil && m.history == "" {
		// The last report of the former primary, which a previous process of the engine received.
		if p := f.pod(former.Name); p != nil && p.is(*former) {
			m.history = p.History
		}
	}
	f.collect(m, &d)
	if m.deposal.Stopped && f.Record.Previous != nil {
		if next, err := f.Record.Ended(); err == nil {
			d.write(Step{Record: next, Former: f.Former}, "the previous primary has ended")
			return d
		}
	}
	step, until := m.deposal.Next(f.Now)
	if m.settled == 0 && (m.deposal.Stopped || step == permission.StepCheck || step == permission.StepName) {
		m.settled = f.Now
	}
	if step != permission.StepChoose && !f.isCandidateUsable(m) {
		f.resetCandidate(m)
		step = permission.StepChoose
	}
	if step == permission.StepCheck || step == permission.StepName {
		// Members that have not answered by now are not waited for.
		d.Steps = slices.DeleteFunc(d.Steps, func(s Step) bool { return s.Pod != m.deposal.Candidate.Name })
	}
	switch step {
	case permission.StepChoose:
		f.chooseCandidate(m, &d)
	case permission.StepPromise:
		// All members have been asked to promise, the candidate included.
		d.Message = fmt.Sprintf("there is no primary: %s is about to take over", m.deposal.Candidate.Name)
	case permission.StepWait:
		d.Message = fmt.Sprintf("%s takes over once the write lease of the previous primary has expired",
			m.deposal.Candidate.Name)
		d.wakeAt(until)
	case permission.StepCheck:
		d.add(Step{Action: Ask, Pod: m.deposal.Candidate.Name}, "it is about to be named")
	case permission.StepName:
		if f.confirmCandidate(m, &d) {
			f.namePrimary(m, &d)
		}
	}
	return d
}

// collect asks all members to promise the term, and evaluates their answers.
func (f *Facts) collect(m *Memory, d *Decision) {
	deposal := m.deposal
	for _, p := range f.Pods {
		member, known := p.member()
		if !known || !f.mustPromise(member) {
			continue
		}
		answer, answered := m.answers[p.Name]
		// An answer of an earlier process on this pod does not count.
		answered = answered && answer.At >= deposal.RecordedAt
		kept := answered && answer.Problem == "" && answer.Member.Identity == member.Identity &&
			answer.Member.Promised == f.Record.Term
		switch {
		case kept && f.Former != nil && member == *f.Former:
			if deposal.Stopped = true; m.ended == 0 {
				m.ended = answer.At
			}
		case kept, p.Presence != Alive && p.Presence != Leaving:
		default:
			at, isDue := due(answer.At, answered, f.Now, m.pace(p.Name, retryInterval))
			if isDue {
				d.add(Step{Action: Promise, Pod: p.Name}, "term %d has no primary", f.Record.Term)
			}
			d.wakeAt(max(at, f.Now+retryInterval))
		}
		if member != deposal.Candidate {
			continue
		}
		if kept && deposal.PromisedAt == 0 {
			deposal.PromisedAt = answer.At
		}
		if kept && deposal.PromisedAt != 0 {
			deposal.CheckedAt = max(deposal.CheckedAt, answer.At)
		}
	}
}

// mustPromise says whether the former primary may need the acknowledgement of a member, or is that member.
func (f *Facts) mustPromise(member permission.Member) bool {
	return f.Record.List.Has(member) || f.Record.Previous != nil && f.Record.Previous.Has(member) || f.Former != nil &&
		*f.Former == member
}

// isCandidateUsable says whether the candidate can still take over.
func (f *Facts) isCandidateUsable(m *Memory) bool {
	p := f.pod(m.deposal.Candidate.Name)
	return p != nil && p.Presence == Alive && p.is(m.deposal.Candidate) && m.misses[p.Name] < maxMisses &&
		slices.Contains(f.Wanted, p.Name) &&
		(p.Health == report.Healthy || f.isFormerPrimary(p) || f.isOnlySurvivor(p))
}

// isOnlySurvivor says whether a pod is the only one that can still be named: the volumes of all others are gone.
func (f *Facts) isOnlySurvivor(p *Pod) bool {
	return !f.isSynchronous() && !slices.ContainsFunc(f.Record.List.Members, func(member permission.Member) bool {
		other := f.pod(member.Name)
		gone := !slices.Contains(f.Wanted, member.Name) || other != nil && other.Member.Identity != "" && !other.is(member)
		return member.Name != p.Name && f.Record.Eligible(member) && !gone
	})
}

// noCandidateReason tells a person what to do when no member can come back: the members that have their volumes are not
// wanted, or the volumes of all members are gone. A pod that was not a member has other data. Without the members
// nothing proves that the former primary has ended, since its lease depends on their acknowledgements only.
func (f *Facts) noCandidateReason() string {
	var unwanted []string
	for _, member := range f.Record.List.Members {
		other := f.pod(member.Name)
		switch {
		case other != nil && other.Member.Identity != "" && !other.is(member):
			// Its volume is gone.
		case slices.Contains(f.Wanted, member.Name):
			return ""
		default:
			unwanted = append(unwanted, member.Name)
		}
	}
	if len(unwanted) == 1 {
		return fmt.Sprintf("; the only member that is left is not wanted any more: scale back so that pod %s is wanted",
			unwanted[0])
	}
	if len(unwanted) > 1 {
		return fmt.Sprintf("; the members that are left are not wanted any more: scale back so that pods %s are wanted",
			strings.Join(unwanted, ", "))
	}
	return fmt.Sprintf("; the volumes of all members (%s) are gone, and a pod that was no member cannot become the "+
		"primary, not even with acceptDataLoss, since a member that is cut off may still take writes: restore a backup, "+
		"or copy the data that another pod still has into another instance",
		strings.Join(names(f.Record.List.Members), ", "))
}

func names(members []permission.Member) []string {
	var all []string
	for _, member := range members {
		all = append(all, member.Name)
	}
	return all
}

// isFormerPrimary says whether a pod is the former primary, which may be named again: no other pod has newer data.
func (f *Facts) isFormerPrimary(p *Pod) bool { return f.Former != nil && p.is(*f.Former) }

// resetCandidate drops the candidate.
func (f *Facts) resetCandidate(m *Memory) {
	d := m.deposal
	m.deposal = &permission.Deposal{Record: d.Record, RecordedAt: d.RecordedAt, Stopped: d.Stopped}
}

// chooseCandidate chooses the most advanced candidate, or the last resort if there is none.
func (f *Facts) chooseCandidate(m *Memory, d *Decision) {
	var former []permission.Member
	if f.Former != nil {
		former = append(former, *f.Former)
	}
	best, problem := f.candidate(m, d, former...)
	if best == nil && !d.measuring {
		best = f.lastResort(m)
	}
	if best == nil {
		d.Message = "there is no primary, and no pod can take over: " + problem + f.noCandidateReason()
		d.wakeAt(f.Now + retryInterval)
		return
	}
	member, _ := best.member()
	m.deposal.Candidate = member
	d.Message = fmt.Sprintf("there is no primary: %s is about to take over", best.Name)
	// Its answers from before it was chosen count.
	f.applyEarlierPromise(m, member)
	d.wakeAt(f.Now + pausePoll)
}

// lastResort returns a pod whose process need not run to be named: the former primary, or the only survivor.
func (f *Facts) lastResort(m *Memory) *Pod {
	for i := range f.Pods {
		p := &f.Pods[i]
		member, known := p.member()
		if known && p.Presence == Alive && f.Record.Eligible(member) && slices.Contains(f.Wanted, p.Name) &&
			m.misses[p.Name] < maxMisses && (f.isFormerPrimary(p) || f.isOnlySurvivor(p)) {
			return p
		}
	}
	return nil
}

// confirmCandidate says whether the candidate is still the best one now that there is no primary. It is replaced if it
// is not.
func (f *Facts) confirmCandidate(m *Memory, d *Decision) bool {
	if f.Measures == FromReports {
		return true
	}
	var former []permission.Member
	if f.Former != nil {
		former = append(former, *f.Former)
	}
	best, _ := f.candidate(m, d, former...)
	switch {
	case d.measuring:
		return false
	case best == nil:
		// Only the last resort is left. Its process need not run.
		p := f.pod(m.deposal.Candidate.Name)
		if f.isFormerPrimary(p) || f.isOnlySurvivor(p) {
			return true
		}
		f.resetCandidate(m)
	case !best.is(m.deposal.Candidate):
		f.resetCandidate(m)
		m.deposal.Candidate, _ = best.member()
		f.applyEarlierPromise(m, m.deposal.Candidate)
	default:
		return true
	}
	d.wakeAt(f.Now + pausePoll)
	return false
}

// applyEarlierPromise applies a promise that the candidate made before it was chosen.
func (f *Facts) applyEarlierPromise(m *Memory, member permission.Member) {
	answer, found := m.answers[member.Name]
	if found && answer.At >= m.deposal.RecordedAt && answer.Problem == "" && answer.Member.Identity == member.Identity &&
		answer.Member.Promised == f.Record.Term {
		m.deposal.PromisedAt, m.deposal.CheckedAt = answer.At, answer.At
	}
}

// measured returns the latest measurement of a pod; nil if there is none.
func (f *Facts) measured(m *Memory, name string) *Measurement {
	if p := f.pod(name); f.Measures == FromReports && p != nil && p.Measurement.Problem == "" {
		return &p.Measurement
	}
	if last, found := m.measures[name]; f.Measures == ByAction && found && last.Problem == "" {
		return &last.Measurement
	}
	return nil
}

func (f *Facts) namePrimary(m *Memory, d *Decision) {
	next, err := f.Record.Name(m.deposal.Candidate)
	if err != nil {
		d.Message = err.Error()
		return
	}
	why := "its data is the most advanced"
	if f.isCaughtUp(m, f.pod(m.deposal.Candidate.Name)) {
		why = "it has all that the previous primary had"
	}
	if m.deposal.Stopped {
		why += ", and the previous primary has ended"
	} else if next.Term > 1 {
		why += ", and the write lease of the previous primary has expired"
	}
	d.State, d.Message = Changing, next.Primary.Name+" takes over"
	d.write(Step{Record: next, Former: next.Primary, Chosen: f.measured(m, next.Primary.Name)}, "%s", why)
}
