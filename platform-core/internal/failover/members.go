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

// changeList updates the list of members while the primary is healthy.
func (f *Facts) changeList(m *Memory, primary *Pod, d *Decision) {
	if primary == nil || primary.Health != report.Healthy || !m.seenWriting {
		// Replicas cannot be in sync without a primary.
		m.absent = nil
		return
	}
	members, changes := f.nextMembers(m, d)
	copies := f.copies(len(members) - 1)
	if copies != f.Record.List.SynchronousReplicas {
		changes = append(changes, fmt.Sprintf("each write is on %d other members", copies))
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

// copies returns the number of synchronous replicas for so many other members. It grows only when there are enough of
// them.
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

// nextMembers returns the members that the list should have, and a description of each change.
func (f *Facts) nextMembers(m *Memory, d *Decision) (members []permission.Member, changes []string) {
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
		if p == nil || !p.isHealthyReplica() {
			since, known := m.absent[member]
			if !known {
				since = f.Now
			}
			if f.Now-since >= absenceTimeout && others > f.minMembers() {
				others--
				changes = append(changes, member.Name+" has been unhealthy for "+absenceTimeout.String())
				continue
			}
			absent[member] = since
			if f.Now-since < absenceTimeout {
				d.wakeAt(since + absenceTimeout)
			}
		}
		members = append(members, member)
	}
	m.absent = absent
	for _, p := range f.Pods {
		member, known := p.member()
		if known && p.isHealthyReplica() && slices.Contains(f.Wanted, p.Name) && f.knowsRecord(m, p) &&
			!slices.Contains(f.Record.List.Members, member) {
			members = append(members, member)
			changes = append(changes, p.Name+" has the primary's data")
		}
	}
	return members, changes
}

// minMembers returns how many other members stay in the list although they are not in sync: only they can have the
// acknowledged writes.
func (f *Facts) minMembers() int {
	if f.SynchronousReplicas.Shortage == Continue {
		return 0
	}
	return min(f.Record.List.SynchronousReplicas, f.SynchronousReplicas.Wanted)
}

// isHealthyReplica says whether a replica is alive, healthy and in sync.
func (p *Pod) isHealthyReplica() bool {
	return p.Presence == Alive && p.Health == report.Healthy && p.Sync == InSync && p.Member.Identity != ""
}
