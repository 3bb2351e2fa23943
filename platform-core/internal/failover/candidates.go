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

// candidate is the pod that should write next, of those that can. Where it depends on measurements that are not there,
// it adds steps for them and there is none yet.
func (f *Facts) candidate(m *Memory, d *Decision, but ...permission.Member) (best *Pod, problem string) {
	var problems []string
	var first compared
	// heard are those whose data does not count for more than that of the candidate, or is compared once nobody writes any more.
	var heard []compared
	waiting := false
	for i := range f.Pods {
		p := &f.Pods[i]
		excluded := slices.ContainsFunc(but, func(b permission.Member) bool { return b.Name == p.Name })
		if excluded && (f.wrote(p) || f.handing || !f.guarded()) {
			continue
		}
		reason := f.unfit(m, d, p)
		var have Measurement
		if reason == "" {
			var pending bool
			if have, pending = f.measure(m, d, p); pending {
				waiting = true
				continue
			}
			reason = f.unsafe(have)
		}
		switch {
		case excluded:
			if reason == "" {
				heard = append(heard, compared{p, have})
			}
		case reason != "":
			problems = append(problems, p.Name+" "+reason)
		default:
			heard = append(heard, compared{p, have})
			if first.Pod == nil || f.outranks(m, p, have, first.Pod, first.have) {
				first = compared{p, have}
			}
		}
	}
	switch {
	case waiting:
		return nil, "their data is being looked at"
	case first.Pod == nil && len(problems) == 0:
		return nil, "there is none"
	case first.Pod == nil:
		return nil, strings.Join(problems, "; ")
	}
	if unheard := f.unheard(m, first.Pod, heard); unheard != "" {
		return nil, strings.Join(append(problems, unheard), "; ")
	}
	return first.Pod, strings.Join(problems, "; ")
}

// unfit says why a pod cannot be asked for its data, or may not have what the others rely on; empty when it can.
func (f *Facts) unfit(m *Memory, d *Decision, p *Pod) string {
	member, known := p.member()
	switch {
	case !slices.Contains(f.Wanted, p.Name):
		return "is not wanted any more"
	case p.Presence != Alive:
		return "is not there"
	case !known || !f.Record.Eligible(member):
		return "is no member, since it did not have the writer's data"
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
	return !f.accepts() && (f.Record.List.Copies > 0 || f.Record.Previous != nil && f.Record.Previous.Copies > 0)
}

// unheard says which members may have writes that the candidate has not; empty when there can be none. A write is acknowledged
// once as many others of the list as there are copies have it: where fewer than that were not heard, one that was has it. The
// candidate is the most advanced of these.
func (f *Facts) unheard(m *Memory, best *Pod, heard []compared) string {
	if f.handing || !f.guarded() || slices.ContainsFunc(heard, func(c compared) bool { return f.vouched(m, c.Pod) }) {
		return ""
	}
	for _, list := range []*permission.List{&f.Record.List, f.Record.Previous} {
		if list == nil || list.Copies == 0 {
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
		if len(missing) >= list.Copies {
			return fmt.Sprintf("%s may have acknowledged writes that %s has not, since each is on %d of the others: bring them back, or run a Failover with acceptDataLoss",
				strings.Join(missing, ", "), best.Name, list.Copies)
		}
	}
	return ""
}

// vouched says whether a pod had all that the writer before had when that took no more writes.
func (f *Facts) vouched(m *Memory, p *Pod) bool {
	member, known := p.member()
	return known && m.vouched.member == member && m.vouched.term == f.Record.Term
}
