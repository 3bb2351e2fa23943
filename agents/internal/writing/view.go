// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"fmt"
	"time"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Role of a process.
type Role int

const (
	// Nothing starts no process. One that runs as a replica goes on.
	Nothing Role = iota
	// Primary runs only with a write lease.
	Primary
	// Replica of a primary.
	Replica
)

// Wanted is the desired role of the process.
type Wanted struct {
	Role Role
	// Primary is the pod that a replica follows.
	Primary string
	// Rejoin says that a process ran as the primary here, and has not rejoined as a replica since.
	Rejoin bool
	// Why is the reason for Nothing.
	Why string
}

// View is the published state of a member. It changes only on events.
type View struct {
	Wanted
	// Identity, Promised, Term and ListVersion are as in permission.Member and permission.State.
	Identity                    string
	Promised, Term, ListVersion int64
	// List is the version of the agent's list; ListVersion is that of the process, if the process has to apply it.
	List int64
	// Named is the primary in the promised term; empty if that is not known.
	Named string
	// Writing says that the process runs as the primary.
	Writing bool
	// Unreachable says that the primary has not asked for an acknowledgement although it should.
	Unreachable bool
}

// Report returns the view as an API message.
func (v View) Report() *agentv1.MemberReport {
	return &agentv1.MemberReport{Identity: v.Identity, Promised: v.Promised, Term: v.Term, ListVersion: v.ListVersion,
		Primary: v.Named, Writing: v.Writing, WriterUnreachable: v.Unreachable}
}

// View returns the current view, and a channel that is closed on a change.
func (m *Member) View() (View, <-chan struct{}) { return m.view.get() }

// publish updates the view from the state on disk. It is called with the lock.
func (m *Member) publish() {
	state := m.persisted.State
	m.view.set(View{
		Wanted: m.wanted(Boottime()), Identity: m.memberFile.Identity, Promised: state.Promised, Term: state.Term,
		ListVersion: m.confirmedListVersion(), List: state.List.Version,
		Named: m.named(), Writing: m.guard.Writing(), Unreachable: m.primaryContact.unreachable,
	})
}

// confirmedListVersion returns the version of the list that both agent and process apply. It is called with the lock.
func (m *Member) confirmedListVersion() int64 {
	version := m.persisted.State.List.Version
	if m.processListVersion != nil {
		version = min(version, *m.processListVersion)
	}
	return version
}

// named returns the primary in the promised term. It is called with the lock.
func (m *Member) named() string {
	if record := m.persisted.Record; record.Primary != nil && record.Term == m.persisted.State.Promised {
		return record.Primary.Name
	}
	return ""
}

// wanted is called with the lock.
func (m *Member) wanted(now time.Duration) Wanted {
	w := Wanted{Rejoin: m.memberFile.Wrote}
	last := m.memberFile.LastPrimary
	switch {
	case m.storageError != nil:
		w.Why = m.storageError.Error()
	case m.agent.Named() && m.agent.Valid(now):
		w.Role = Primary
	case m.agent.Named():
		w.Why = fmt.Sprintf("it is the primary of term %d, and waits for its write lease from the other members or the "+
			"API server",
			m.agent.State().Term)
	case last.Name == "":
		w.Why = "no primary is known yet"
	case last.Name != m.Pod:
		w.Role, w.Primary = Replica, last.Name
	case last.Identity != m.memberFile.Identity:
		w.Why = "this pod is named as the primary with the volume that it had before: with its present volume it is " +
			"another member, and never becomes the primary by itself"
	default:
		w.Why = fmt.Sprintf("it is no longer the primary since term %d, and the next one is not known yet",
			m.agent.State().Promised)
	}
	return w
}

// contactTimeout is after how long without a request the primary counts as unreachable: one and a half rounds.
const contactTimeout = 3 * time.Second

// primaryContact is what a member knows of the rounds of the primary.
type primaryContact struct {
	// last is when the primary asked, and term the term of that request; zero for never.
	last time.Duration
	term int64
	// since is when this member learned of the current primary.
	since time.Duration
	// recordKnown says that the record was read since the agent started.
	recordKnown bool
	// unreachable is reported to the engine. It is reset by the second of two rounds.
	unreachable bool
}

func (a *primaryContact) record(term int64, now time.Duration) {
	if a.last != 0 && now-a.last < contactTimeout && now > a.last {
		a.unreachable = false
	}
	a.last, a.term = now, term
}

func (a *primaryContact) named(now time.Duration) { a.since, a.unreachable = now, false }

// nextCheck marks a primary that does not ask as unreachable, and returns when to check again.
func (a *primaryContact) nextCheck(now time.Duration) time.Duration {
	due := max(a.last, a.since) + contactTimeout
	if now >= due {
		a.unreachable = true
		due = now + contactTimeout
	}
	return due
}
