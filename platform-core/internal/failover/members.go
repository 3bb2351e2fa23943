// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// changeList brings the list of members up to date while the writer is well.
func (f *Facts) changeList(m *Memory, writer *Pod, d *Decision) {
	if writer == nil || writer.Health != report.Healthy || !m.established {
		// Followers are not well without a writer, which says nothing about them.
		m.absent = nil
		return
	}
	members, changes := f.listed(m, d)
	copies := f.copies(len(members) - 1)
	if copies != f.Record.List.SynchronousReplicas {
		changes = append(changes, fmt.Sprintf("%d others have each write", copies))
	}
	if f.Record.Previous != nil || len(changes) == 0 {
		return
	}
	next, err := f.Record.ChangeSynchronousReplicas(members, copies)
	if err != nil {
		d.Message = err.Error()
		return
	}
	d.write(Step{Record: next, Former: f.Record.Primary}, "%s", strings.Join(changes, ", "))
}

// copies are how many there are to be, of so many others. There are no more of them before there are enough others.
func (f *Facts) copies(others int) int {
	now := f.Record.List.SynchronousReplicas
	switch {
	case f.SynchronousReplicas.Shortage == Continue:
		return min(f.SynchronousReplicas.Wanted, others)
	case others < f.SynchronousReplicas.Wanted:
		return min(f.SynchronousReplicas.Wanted, now)
	}
	return f.SynchronousReplicas.Wanted
}

// listed are the members that the list should have, and what is different about them.
func (f *Facts) listed(m *Memory, d *Decision) (members []permission.Member, changes []string) {
	absent := map[permission.Member]time.Duration{}
	others := len(f.Record.List.Members) - 1
	for _, member := range f.Record.List.Members {
		if member == *f.Record.Primary {
			members = append(members, member)
			continue
		}
		p := f.pod(member.Name)
		switch {
		case !slices.Contains(f.Wanted, member.Name):
			changes = append(changes, member.Name+" is not wanted any more")
			others--
			continue
		case p != nil && p.Member.Identity != "" && !p.is(member):
			changes = append(changes, member.Name+" has another volume")
			others--
			continue
		}
		if p == nil || !p.well() {
			since, known := m.absent[member]
			if !known {
				since = f.Now
			}
			if f.Now-since >= absence && others > f.kept() {
				others--
				changes = append(changes, member.Name+" has not been well for "+absence.String())
				continue
			}
			absent[member] = since
			if f.Now-since < absence {
				d.wakeAt(since + absence)
			}
		}
		members = append(members, member)
	}
	m.absent = absent
	for _, p := range f.Pods {
		member, known := p.member()
		if known && p.well() && slices.Contains(f.Wanted, p.Name) && f.knows(m, p) &&
			!slices.Contains(f.Record.List.Members, member) {
			members = append(members, member)
			changes = append(changes, p.Name+" has the writer's data")
		}
	}
	return members, changes
}

// kept is how many other members stay in the list although they are away: they are the only ones that can have what was
// acknowledged.
func (f *Facts) kept() int {
	if f.SynchronousReplicas.Shortage == Continue {
		return 0
	}
	return min(f.Record.List.SynchronousReplicas, f.SynchronousReplicas.Wanted)
}

// well says whether a follower does what it is there for.
func (p *Pod) well() bool {
	return p.Presence == Alive && p.Health == report.Healthy && p.Sync == InSync && p.Member.Identity != ""
}
