// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"slices"
	"time"
)

// State is what an agent keeps on disk, beside what gives the member its identity. It is written before anything is
// sent that follows from it.
type State struct {
	// Promised is the lowest term that the agent acknowledges.
	Promised int64 `json:"promised,omitempty"`
	// Term in which it was named; 0 when it was not.
	Term int64 `json:"term,omitempty"`
	// List that it goes by in this term.
	List List `json:"list,omitzero"`
}

// Agent is the part of one pod: it answers to the primary, or is the primary. The caller kills the process as soon as
// Valid no longer holds, before it does or answers anything else.
type Agent struct {
	self  Member
	state State
	// until is the end of the permission, on the machine's clock.
	until time.Duration
}

// NewAgent goes on from what is on disk, without a permission.
func NewAgent(self Member, state State) *Agent { return &Agent{self: self, state: state} }

// State returns what has to be on disk.
func (a *Agent) State() State { return a.state }

// Valid says whether the process may write.
func (a *Agent) Valid(now time.Duration) bool { return now < a.until }

// Until returns the end of the permission; one that is not after now is none.
func (a *Agent) Until() time.Duration { return a.until }

// Named says whether the agent is to write in the highest term that it knows.
func (a *Agent) Named() bool { return a.state.Term != 0 && a.state.Term == a.state.Promised }

// Promise has the agent acknowledge no term lower than this one. A primary of a lower one loses its permission at
// once. It returns the term that is promised now.
func (a *Agent) Promise(term int64) int64 {
	if term > a.state.Promised {
		a.state.Promised = term
		a.until = 0
	}
	return a.state.Promised
}

// Acknowledge answers a primary that asks for the acknowledgement of its term. When refused, promised is why. A term
// that is higher is refused too: it is for the engine and the record to say that there is one, not for a peer.
func (a *Agent) Acknowledge(term int64) (acknowledged bool, promised int64) {
	return term == a.state.Promised, a.state.Promised
}

// Learn takes over what a record says, wherever it comes from. It gives no permission.
func (a *Agent) Learn(r Record) {
	if r.Term < a.state.Promised {
		return
	}
	a.Promise(r.Term)
	switch named := r.Primary != nil && *r.Primary == a.self; {
	case r.Term == a.state.Term:
		// In a term the primary does not change: a record that names nobody is an older one that came late.
		if named && r.List.Version > a.state.List.Version {
			a.state.List = r.List
		}
	case named:
		a.state.Term, a.state.List = r.Term, r.List
	default:
		a.state.Term, a.state.List = 0, List{}
	}
}

// Read takes over what a consistent read of the record said, which was sent at a time. It gives a permission when it
// names the agent.
func (a *Agent) Read(sent time.Duration, r Record) {
	a.Learn(r)
	if a.Named() && r.Term == a.state.Term && r.Primary != nil && *r.Primary == a.self {
		a.grant(sent)
	}
}

// Round is one request to all other members of the list.
type Round struct {
	// Term to be acknowledged.
	Term int64
	// Members that have yet to answer.
	Members []Member
	sent    time.Duration
	version int64
}

// Ask begins a round that is sent now; nil when the agent is not named. A sole member has its permission with it.
func (a *Agent) Ask(now time.Duration) *Round {
	if !a.Named() {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(a.state.List.Members), func(m Member) bool { return m == a.self })
	round := &Round{Term: a.state.Term, Members: others, sent: now, version: a.state.List.Version}
	a.settle(round)
	return round
}

// Acknowledged takes the answer of a member to a round. The last one gives the permission.
func (a *Agent) Acknowledged(round *Round, from Member) {
	round.Members = slices.DeleteFunc(round.Members, func(m Member) bool { return m == from })
	a.settle(round)
}

// Refused takes the answer of a member that promised a higher term: the engine has begun to depose the primary. One
// that is higher by more than MaxJump changes nothing.
func (a *Agent) Refused(promised int64) {
	if promised-a.state.Promised <= MaxJump {
		a.Promise(promised)
	}
}

func (a *Agent) settle(round *Round) {
	if len(round.Members) == 0 && a.Named() && round.Term == a.state.Term && round.version == a.state.List.Version {
		a.grant(round.sent)
	}
}

func (a *Agent) grant(sent time.Duration) { a.until = max(a.until, sent+Validity) }
