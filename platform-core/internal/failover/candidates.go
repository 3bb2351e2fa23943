// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// compared is a pod with its measurement.
type compared struct {
	*Pod
	have Measurement
}

// candidates are the pods that were considered.
type candidates struct {
	// best candidate; its Pod is nil if there is none.
	best compared
	// consulted are the pods whose data is not more advanced than that of the best, or is compared again once there is no
	// primary.
	consulted []compared
	// formerMembers are consulted but cannot be named: they were removed from a list that the primary may still have used.
	formerMembers []compared
	// problems are why the others are no candidates.
	problems []string
	// pending says that a measurement is pending.
	pending bool
}

// candidate returns the best candidate. If that depends on measurements that are missing, it adds steps for them and
// returns none.
func (f *Facts) candidate(m *Memory, d *Decision, but ...permission.Member) (best *Pod, problem string) {
	if p := f.pauseCandidate(m, d, but); p != nil {
		return p, ""
	}
	var c candidates
	for i := range f.Pods {
		f.consider(m, d, &c, &f.Pods[i], but)
	}
	switch {
	case c.pending:
		return nil, "their data is being compared"
	case c.best.Pod == nil && len(c.problems) == 0:
		return nil, "there is none"
	case c.best.Pod == nil:
		return nil, strings.Join(c.problems, "; ")
	}
	if unreachableCopies := f.unreachableCopies(m, c.best.Pod, c.consulted); unreachableCopies != "" {
		return nil, strings.Join(append(c.problems, unreachableCopies), "; ")
	}
	for _, w := range c.formerMembers {
		if f.outranks(m, w.Pod, w.have, c.best.Pod, c.best.have) {
			return nil, strings.Join(append(c.problems, fmt.Sprintf("%s has writes that %s has not, and cannot be named since "+
				"it was taken off the list: run a Failover with acceptDataLoss to go on without these",
				w.Name, c.best.Name)), "; ")
		}
	}
	return c.best.Pod, strings.Join(c.problems, "; ")
}

// pauseCandidate returns the pod that had all data of the primary when that was paused, while there is no primary
// since. It is chosen whatever the data of the others is.
func (f *Facts) pauseCandidate(m *Memory, d *Decision, but []permission.Member) *Pod {
	p := f.pod(m.caughtUp.member.Name)
	if f.Record.Primary != nil || p == nil || !f.isCaughtUp(m, p) || among(but, p) || f.ineligibleReason(m, d, p) != "" {
		return nil
	}
	return p
}

// among says whether a pod is one of these members, by its name.
func among(members []permission.Member, p *Pod) bool {
	return slices.ContainsFunc(members, func(member permission.Member) bool { return member.Name == p.Name })
}

// consider adds a pod to the candidates, or to the pods whose data counts.
func (f *Facts) consider(m *Memory, d *Decision, c *candidates, p *Pod, but []permission.Member) {
	excluded := among(but, p)
	if excluded && (f.isLastPrimary(p) || f.handingOver || !f.isSynchronous()) {
		return
	}
	reason, former := f.ineligibleReason(m, d, p), f.isFormerMember(p)
	if former {
		reason = f.unreachableReason(m, d, p)
	}
	var have Measurement
	if reason == "" {
		var pending bool
		if have, pending = f.measure(m, d, p); pending {
			c.pending = true
			return
		}
		reason = f.dataLossReason(have)
	}
	switch {
	case reason != "":
		if !excluded {
			c.problems = append(c.problems, p.Name+" "+reason)
		}
		return
	case former:
		c.formerMembers = append(c.formerMembers, compared{p, have})
	case !excluded && (c.best.Pod == nil || f.outranks(m, p, have, c.best.Pod, c.best.have)):
		c.best = compared{p, have}
	}
	c.consulted = append(c.consulted, compared{p, have})
}

// isFormerMember says whether a pod is in the previous list only: it cannot be named, but may have acknowledged writes.
func (f *Facts) isFormerMember(p *Pod) bool {
	member, known := p.member()
	return known && p.Presence == Alive && slices.Contains(f.Wanted, p.Name) && f.isSynchronous() && !f.isLastPrimary(p) &&
		!f.Record.Eligible(member) &&
		f.Record.Previous != nil && f.Record.Previous.SynchronousReplicas > 0 && f.Record.Previous.Has(member)
}

// ineligibleReason returns why a pod cannot be named, or measured; empty if it can.
func (f *Facts) ineligibleReason(m *Memory, d *Decision, p *Pod) string {
	member, known := p.member()
	switch {
	case !slices.Contains(f.Wanted, p.Name):
		return "is not wanted any more"
	case p.Presence != Alive:
		return "is not there"
	case !known || !f.Record.Eligible(member):
		return "is no member, since it did not have the primary's data"
	}
	return f.unreachableReason(m, d, p)
}

// unreachableReason returns why a pod cannot be measured; empty if it can.
func (f *Facts) unreachableReason(m *Memory, d *Decision, p *Pod) string {
	switch {
	case p.Health != report.Healthy:
		return "is not healthy"
	case m.misses[p.Name] >= maxMisses:
		f.askAgain(m, d, p)
		return "does not answer"
	}
	return ""
}

// isLastPrimary says whether a pod is the primary, or the former one while there is none.
func (f *Facts) isLastPrimary(p *Pod) bool {
	if f.Record.Primary != nil {
		return p.Name == f.Record.Primary.Name
	}
	return f.Former != nil && p.Name == f.Former.Name
}

// isSynchronous says whether acknowledged writes must not be lost: replicas acknowledge them, and no loss is accepted.
func (f *Facts) isSynchronous() bool {
	return !f.acceptsLoss() && (f.Record.List.SynchronousReplicas > 0 || f.Record.Previous != nil &&
		f.Record.Previous.SynchronousReplicas > 0)
}

// unreachableCopies returns which members may have writes that the candidate lacks; empty if none can. A write is
// acknowledged once as many other members of the list have it as there are synchronous replicas. If fewer than that
// were not consulted, one of those that were has the write. The candidate is the most advanced of these.
func (f *Facts) unreachableCopies(m *Memory, best *Pod, consulted []compared) string {
	if f.handingOver || !f.isSynchronous() ||
		slices.ContainsFunc(consulted, func(c compared) bool { return f.isCaughtUp(m, c.Pod) }) {
		return ""
	}
	for _, list := range []*permission.List{&f.Record.List, f.Record.Previous} {
		if list == nil || list.SynchronousReplicas == 0 {
			continue
		}
		var missing []string
		for _, member := range list.Members {
			if f.isLastPrimary(&Pod{Name: member.Name}) {
				continue
			}
			if !slices.ContainsFunc(consulted, func(c compared) bool { return c.is(member) }) {
				missing = append(missing, member.Name)
			}
		}
		if len(missing) >= list.SynchronousReplicas {
			return fmt.Sprintf("%s may have acknowledged writes that %s has not, since each is on %d of the others: bring "+
				"them back, or run a Failover with acceptDataLoss",
				strings.Join(missing, ", "), best.Name, list.SynchronousReplicas)
		}
	}
	return ""
}

// isCaughtUp says whether a pod had all data of the former primary when that was paused, and it took no writes after. A
// primary that did not end during the pause took writes again.
func (f *Facts) isCaughtUp(m *Memory, p *Pod) bool {
	ended := m.ended
	if ended == 0 {
		ended = f.Now
	}
	return p != nil && p.is(m.caughtUp.member) && m.caughtUp.term == f.Record.Term && ended <= m.caughtUp.until
}
