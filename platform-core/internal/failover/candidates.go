// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// compared is a pod and how far its data is.
type compared struct {
	*Pod
	have Measurement
}

// candidates are what is known of pods on the way to one.
type candidates struct {
	// best of those that can write next; its Pod is nil while there is none.
	best compared
	// heard are those whose data does not count for more than that of the best, or is compared once nobody writes any
	// more.
	heard []compared
	// witnesses are heard, and can be named no more: they were taken off a list that the writer may still have gone by.
	witnesses []compared
	// problems of those that cannot.
	problems []string
	// pending says that a measurement is not there yet.
	pending bool
}

// candidate is the pod that should write next, of those that can. Where it depends on measurements that are not there,
// it adds steps for them and there is none yet.
func (f *Facts) candidate(m *Memory, d *Decision, but ...permission.Member) (best *Pod, problem string) {
	if vouched := f.heirOfPause(m, d, but); vouched != nil {
		return vouched, ""
	}
	var c candidates
	for i := range f.Pods {
		f.consider(m, d, &c, &f.Pods[i], but)
	}
	switch {
	case c.pending:
		return nil, "their data is being looked at"
	case c.best.Pod == nil && len(c.problems) == 0:
		return nil, "there is none"
	case c.best.Pod == nil:
		return nil, strings.Join(c.problems, "; ")
	}
	if unheard := f.unheard(m, c.best.Pod, c.heard); unheard != "" {
		return nil, strings.Join(append(c.problems, unheard), "; ")
	}
	for _, w := range c.witnesses {
		if f.outranks(m, w.Pod, w.have, c.best.Pod, c.best.have) {
			return nil, strings.Join(append(c.problems, fmt.Sprintf("%s has writes that %s has not, and cannot be named since "+
				"it was taken off the list: run a Failover with acceptDataLoss to go on without these",
				w.Name, c.best.Name)), "; ")
		}
	}
	return c.best.Pod, strings.Join(c.problems, "; ")
}

// heirOfPause is the pod that had all that the writer had when that took no more writes, while nobody writes since.
// What others have matters no more.
func (f *Facts) heirOfPause(m *Memory, d *Decision, but []permission.Member) *Pod {
	p := f.pod(m.vouched.member.Name)
	if f.Record.Primary != nil || p == nil || !f.vouched(m, p) || among(but, p) || f.unfit(m, d, p) != "" {
		return nil
	}
	return p
}

// among says whether a pod is one of these, by its name.
func among(members []permission.Member, p *Pod) bool {
	return slices.ContainsFunc(members, func(member permission.Member) bool { return member.Name == p.Name })
}

// consider takes a pod among the candidates, or among those whose data counts.
func (f *Facts) consider(m *Memory, d *Decision, c *candidates, p *Pod, but []permission.Member) {
	excluded := among(but, p)
	if excluded && (f.wrote(p) || f.handing || !f.guarded()) {
		return
	}
	reason, witness := f.unfit(m, d, p), f.witnesses(p)
	if witness {
		reason = f.silent(m, d, p)
	}
	var have Measurement
	if reason == "" {
		var pending bool
		if have, pending = f.measure(m, d, p); pending {
			c.pending = true
			return
		}
		reason = f.unsafe(have)
	}
	switch {
	case reason != "":
		if !excluded {
			c.problems = append(c.problems, p.Name+" "+reason)
		}
		return
	case witness:
		c.witnesses = append(c.witnesses, compared{p, have})
	case !excluded && (c.best.Pod == nil || f.outranks(m, p, have, c.best.Pod, c.best.have)):
		c.best = compared{p, have}
	}
	c.heard = append(c.heard, compared{p, have})
}

// witnesses says whether a pod can be named no more and may have what was acknowledged: it is of the list of before
// alone.
func (f *Facts) witnesses(p *Pod) bool {
	member, known := p.member()
	return known && p.Presence == Alive && slices.Contains(f.Wanted, p.Name) && f.guarded() && !f.wrote(p) &&
		!f.Record.Eligible(member) &&
		f.Record.Previous != nil && f.Record.Previous.SynchronousReplicas > 0 && f.Record.Previous.Has(member)
}

// unfit says why a pod cannot be named, or asked for its data; empty when it can.
func (f *Facts) unfit(m *Memory, d *Decision, p *Pod) string {
	member, known := p.member()
	switch {
	case !slices.Contains(f.Wanted, p.Name):
		return "is not wanted any more"
	case p.Presence != Alive:
		return "is not there"
	case !known || !f.Record.Eligible(member):
		return "is no member, since it did not have the writer's data"
	}
	return f.silent(m, d, p)
}

// silent says why a pod that is there cannot be asked for its data; empty when it can.
func (f *Facts) silent(m *Memory, d *Decision, p *Pod) string {
	switch {
	case p.Health != report.Healthy:
		return "is not healthy"
	case m.misses[p.Name] >= tries:
		f.retry(m, d, p)
		return "does not answer"
	}
	return ""
}

// wrote says whether a pod is the writer, or the one before while there is none.
func (f *Facts) wrote(p *Pod) bool {
	if f.Record.Primary != nil {
		return p.Name == f.Record.Primary.Name
	}
	return f.Former != nil && p.Name == f.Former.Name
}

// guarded says whether writes that were acknowledged must not be lost: others have copies of them.
func (f *Facts) guarded() bool {
	return !f.accepts() && (f.Record.List.SynchronousReplicas > 0 || f.Record.Previous != nil &&
		f.Record.Previous.SynchronousReplicas > 0)
}

// unheard says which members may have writes that the candidate has not; empty when there can be none. A write is
// acknowledged once as many others of the list as there are copies have it: where fewer than that were not heard, one
// that was has it. The candidate is the most advanced of these.
func (f *Facts) unheard(m *Memory, best *Pod, heard []compared) string {
	if f.handing || !f.guarded() || slices.ContainsFunc(heard, func(c compared) bool { return f.vouched(m, c.Pod) }) {
		return ""
	}
	for _, list := range []*permission.List{&f.Record.List, f.Record.Previous} {
		if list == nil || list.SynchronousReplicas == 0 {
			continue
		}
		var missing []string
		for _, member := range list.Members {
			if f.wrote(&Pod{Name: member.Name}) {
				continue
			}
			if !slices.ContainsFunc(heard, func(c compared) bool { return c.is(member) }) {
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

// vouched says whether a pod had all that the writer before had when that took no more writes, and none after. One that
// did not end while it was paused took writes again.
func (f *Facts) vouched(m *Memory, p *Pod) bool {
	ended := m.ended
	if ended == 0 {
		ended = f.Now
	}
	return p != nil && p.is(m.vouched.member) && m.vouched.term == f.Record.Term && ended <= m.vouched.until
}
