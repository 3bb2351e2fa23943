// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"fmt"
	"time"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Role that a process can have.
type Role int

const (
	// Nothing is to be started. What runs as a follower goes on.
	Nothing Role = iota
	// Writer is what may run under a permission only.
	Writer
	// Follower of a writer.
	Follower
)

// Wanted is what the process is to be.
type Wanted struct {
	Role Role
	// Primary is the pod that a follower follows.
	Primary string
	// Rejoin says that a process ran as the writer here, and none has rejoined as a follower since.
	Rejoin bool
	// Why it is Nothing.
	Why string
}

// View is what others act on. It changes only when something happens.
type View struct {
	Wanted
	// Identity, Promised, Term and ListVersion are as in permission.Member and permission.State.
	Identity                    string
	Promised, Term, ListVersion int64
	// List is the version of the list that the agent goes by; ListVersion is that of the process, where it has to be told.
	List int64
	// Named is the pod that is named in the promised term; empty while that is not known.
	Named string
	// Writing says that the process runs as the writer.
	Writing bool
	// Unreachable says that no writer asks, although one should.
	Unreachable bool
}

// Report is the view as the wire has it.
func (v View) Report() *agentv1.MemberReport {
	return &agentv1.MemberReport{Identity: v.Identity, Promised: v.Promised, Term: v.Term, ListVersion: v.ListVersion,
		Primary: v.Named, Writing: v.Writing, WriterUnreachable: v.Unreachable}
}

// View returns the present view, and a channel that is closed when there is another one.
func (m *Member) View() (View, <-chan struct{}) { return m.view.get() }

// publish makes the view anew, of what is on disk. Called with the lock.
func (m *Member) publish() {
	state := m.kept.State
	m.view.set(View{
		Wanted: m.wanted(Boottime()), Identity: m.memory.Identity, Promised: state.Promised, Term: state.Term,
		ListVersion: m.confirmed(), List: state.List.Version,
		Named: m.named(), Writing: m.guard.Writing(), Unreachable: m.asked.unreachable,
	})
}

// confirmed is the version of the list that agent and process go by. Called with the lock.
func (m *Member) confirmed() int64 {
	version := m.kept.State.List.Version
	if m.goesBy != nil {
		version = min(version, *m.goesBy)
	}
	return version
}

// named is the pod that is named in the promised term. Called with the lock.
func (m *Member) named() string {
	if record := m.kept.Record; record.Primary != nil && record.Term == m.kept.State.Promised {
		return record.Primary.Name
	}
	return ""
}

// wanted is called with the lock.
func (m *Member) wanted(now time.Duration) Wanted {
	w := Wanted{Rejoin: m.memory.Wrote}
	writer := m.memory.Writer
	switch {
	case m.trouble != nil:
		w.Why = m.trouble.Error()
	case m.agent.Named() && m.agent.Valid(now):
		w.Role = Writer
	case m.agent.Named():
		w.Why = fmt.Sprintf("it is named in term %d and waits for the permission of the other members or of the API server",
			m.agent.State().Term)
	case writer.Name == "":
		w.Why = "no writer is known yet"
	case writer.Name != m.Pod:
		w.Role, w.Primary = Follower, writer.Name
	case writer.Identity != m.memory.Identity:
		w.Why = "the writer that is named is this pod with the data that it had before; with this folder it is another " +
			"member and never writes by itself"
	default:
		w.Why = fmt.Sprintf("it no longer may write since term %d, and the next writer is not known yet",
			m.agent.State().Promised)
	}
	return w
}

// unaskedFor is how long a member may go unasked until the writer counts as unreachable: a round and a half.
const unaskedFor = 3 * time.Second

// asked is what a member knows of the rounds of the writer.
type asked struct {
	// last is when the writer asked, and term the one that it asked for; zero when it never did.
	last time.Duration
	term int64
	// since is when the present writer became known here.
	since time.Duration
	// heard says that the record was heard of since the agent was started.
	heard bool
	// unreachable is what is told of the writer. It ends with the second of two rounds.
	unreachable bool
}

func (a *asked) by(term int64, now time.Duration) {
	if a.last != 0 && now-a.last < unaskedFor && now > a.last {
		a.unreachable = false
	}
	a.last, a.term = now, term
}

func (a *asked) named(now time.Duration) { a.since, a.unreachable = now, false }

// look takes note of a writer that does not ask, and returns when to look again.
func (a *asked) look(now time.Duration) time.Duration {
	due := max(a.last, a.since) + unaskedFor
	if now >= due {
		a.unreachable = true
		due = now + unaskedFor
	}
	return due
}
