// SPDX-License-Identifier: Apache-2.0

package cluster

import "fmt"

// Phase is how far a cluster is from its shape.
type Phase string

// Values of Phase.
const (
	// Done: it has its shape.
	Done Phase = "Done"
	// Working: there are steps to take.
	Working Phase = "Working"
	// Waiting for what comes by itself.
	Waiting Phase = "Waiting"
	// Refused: somebody has to do something.
	Refused Phase = "Refused"
)

// Plan is what to do next. All steps can be taken one after the other before one looks again.
type Plan struct {
	Phase Phase
	// Reason in one sentence.
	Reason string
	Steps  []Step
	// Left is how many slots have not yet the owner that they are to have.
	Left int
	// RedirectsClients says that the steps take primaries away that clients may still turn to.
	RedirectsClients bool
}

// Kind of a step.
type Kind string

// Values of Kind.
const (
	// SetEpoch gives a fresh node a configuration epoch that no other has.
	SetEpoch Kind = "SetEpoch"
	// Meet has a node get to know another one, or its new address.
	Meet Kind = "Meet"
	// Assign gives slots that nobody owns to a node.
	Assign Kind = "Assign"
	// Replicate has a node copy from another one.
	Replicate Kind = "Replicate"
	// Detach has a replica become a node without data and slots, which nobody knows.
	Detach Kind = "Detach"
	// Failover has a replica take over.
	Failover Kind = "Failover"
	// Move moves slots, with their keys.
	Move Kind = "Move"
	// Close ends the opening of slots that are not to move.
	Close Kind = "Close"
	// Forget has nodes drop another one.
	Forget Kind = "Forget"
	// Reset makes a node that was dropped one that knows nobody.
	Reset Kind = "Reset"
)

// Manner of a failover.
type Manner string

// Values of Manner.
const (
	// Graceful: the primary stops taking writes until the replica has all of them.
	Graceful Manner = ""
	// Force: without the primary, by a vote of the others.
	Force Manner = "FORCE"
	// Takeover: without a vote, since there is no majority.
	Takeover Manner = "TAKEOVER"
)

// Step is one thing to do.
type Step struct {
	Kind Kind
	// On is the member that does it; for Move the one that gives slots away, for Close one that has them open.
	On string
	// To is the member that is met, copied from, or gets slots.
	To string
	// ID is that of a node that is forgotten.
	ID string
	// Slots of Assign, Move and Close, in order.
	Slots []int
	// Epoch of SetEpoch.
	Epoch uint64
	// Manner of Failover.
	Manner Manner
	// Reason in a few words.
	Reason string
}

// String implements fmt.Stringer.
func (s Step) String() string {
	text := fmt.Sprintf("%s on %s", s.Kind, s.On)
	switch s.Kind {
	case SetEpoch:
		text += fmt.Sprintf(": %d", s.Epoch)
	case Meet, Replicate:
		text += ": " + s.To
	case Assign, Close:
		text += ": " + textOf(rangesOf(s.Slots))
	case Move:
		text += fmt.Sprintf(" to %s: %s", s.To, textOf(rangesOf(s.Slots)))
	case Forget:
		text += ": " + s.ID
	case Failover:
		if s.Manner != Graceful {
			text += ": " + string(s.Manner)
		}
	}
	return text + " (" + s.Reason + ")"
}
