// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/report"
)

// died says whether the process of the named writer died, so that it does not write in this term any more.
func (f *Facts) died(writer *Pod) bool {
	return writer != nil && writer.is(*f.Record.Primary) && writer.Member.Forfeited == f.Record.Term
}

// depose ends the term of a writer that does not write in it any more, whoever comes next.
func (f *Facts) depose(d Decision, why string) Decision {
	change := &Change{Cause: Failed, Why: why}
	if f.Mode == Manual && f.Order != nil {
		change.By = f.Order.By
	}
	d.State, d.Message = Changing, why+": the next writer is named once all members were compared"
	d.write(Step{Record: f.Record.Depose(), Former: f.Record.Primary, Unlabel: f.Record.Primary.Name, Change: change}, "%s", why)
	return d
}

// successor is the candidate of a term that has no writer; none while that depends on what is not known yet, or where nobody can be compared. A writer whose
// process died comes after those that went on where it ended, and before those that began anew, as it did itself.
func (f *Facts) successor(m *Memory, d *Decision) (best *Pod, problem string) {
	best, problem = f.candidate(m, d, f.former()...)
	writer := f.bereaved(m)
	if writer == nil || d.measuring || best != nil && m.wentOn(f.measured(m, best.Name)) {
		return best, problem
	}
	missing := f.missing(m)
	until := m.deposal.RecordedAt + absence
	if m.returned != 0 {
		until = max(until, m.returned+absence)
	}
	switch {
	case len(missing) > 0 && (f.guarded() || f.Now < m.deposal.RecordedAt+absence):
		problem = fmt.Sprintf("the process of %s died and may have left less than %s have, which cannot be asked", writer.Name, strings.Join(missing, ", "))
		if !f.guarded() {
			problem += "; they are waited for until " + absence.String() + " have passed"
		}
	case m.returned != 0 && f.Now < m.returned+absence:
		problem = fmt.Sprintf("the process of %s died again less than %s after it was named again, and no other pod has more than it left", writer.Name, absence)
	default:
		return writer, problem
	}
	d.measuring = true
	d.wakeAt(max(until, f.Now+again))
	return nil, problem
}

// bereaved is the writer before, if its process died and it can be named again; nil otherwise.
func (f *Facts) bereaved(m *Memory) *Pod {
	if f.Former == nil || f.accepts() {
		return nil
	}
	p := f.pod(f.Former.Name)
	if p == nil || p.Member.Forfeited == 0 || !f.returns(p) || !f.nameable(m, p) {
		return nil
	}
	return p
}

// missing are the members that may have more than a writer that died, and could not be asked. One that is not wanted, or has another volume, does not count.
func (f *Facts) missing(m *Memory) []string {
	var missing []string
	for _, member := range f.Record.List.Members {
		p := f.pod(member.Name)
		gone := !slices.Contains(f.Wanted, member.Name) || p != nil && p.Member.Identity != "" && !p.is(member)
		if gone || !f.Record.Eligible(member) || member == *f.Former {
			continue
		}
		if p == nil || p.Presence != Alive || p.Health != report.Healthy || m.misses[p.Name] >= tries || f.measured(m, p.Name) == nil {
			missing = append(missing, member.Name)
		}
	}
	return missing
}

// wentOn says whether what was measured went on where the writer before ended: it is of the writer's stream of writes, or it heard of a writer since its process
// was started.
func (m *Memory) wentOn(have *Measurement) bool {
	if have == nil || have.Problem != "" {
		return false
	}
	return have.follows(m.history) || have.Silence != nil && !slices.Contains(m.past, have.History)
}

// returnsAfterCrash says whether the candidate is the writer before, whose process died.
func (f *Facts) returnsAfterCrash(m *Memory) bool {
	p := f.bereaved(m)
	return p != nil && p.is(m.deposal.Candidate)
}
