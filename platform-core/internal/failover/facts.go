// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Facts are what is known of a set. Times are those of this process.
type Facts struct {
	// Now is the present.
	Now time.Duration
	// Record of who may write.
	Record permission.Record
	// Former is the member that was named last; nil as long as none was.
	Former *permission.Member
	// NamedFor is how long the record has named who it names; 0 when that is not known.
	NamedFor time.Duration
	// Mode of failover.
	Mode Mode
	// After is how long the writer is down before another one takes over.
	After time.Duration
	// MaxLag that a candidate may have; nil for any.
	MaxLag *int64
	// SynchronousReplicas that are to have a write.
	SynchronousReplicas SynchronousReplicas
	// Order to the named writer, or while nobody is named to the one before, to hand over; nil when there is none.
	Order *Order
	// Measures says where the order of candidates comes from.
	Measures Measures
	// Handover says whether the writer can stop taking writes before it is deposed.
	Handover Handover
	// Before says whether others than the pods of the set have something to do before the writer is paused.
	Before Before
	// Pods that are there, in order of ordinal, and Wanted names those that should be.
	Pods   []Pod
	Wanted []string
	// handing says that the writer works and is about to say itself who has all that it has.
	handing bool
}

// SynchronousReplicas have a write before a client is told of it.
type SynchronousReplicas struct {
	// Wanted is how many; 0 for none.
	Wanted int
	// Shortage says what becomes of writes while too few others are left.
	Shortage Shortage
}

// Shortage of members that have copies.
type Shortage string

// Values of Shortage.
const (
	// Wait: writes wait, and those that were the last to have copies stay members, however long they are away.
	Wait Shortage = "Wait"
	// Continue: there are fewer copies.
	Continue Shortage = "Continue"
)

// Mode says who decides that the writer is replaced when it fails.
type Mode string

// Modes of failover.
const (
	Auto   Mode = "Auto"
	Manual Mode = "Manual"
)

// Measures says where the order of candidates comes from.
type Measures string

// Values of Measures.
const (
	// FromReports: from the reports of their agents.
	FromReports Measures = "FromReports"
	// ByAction: an action tells, and reports do not.
	ByAction Measures = "ByAction"
)

// Handover says whether the writer can stop taking writes before it is deposed.
type Handover string

// Values of Handover.
const (
	NoHandover Handover = ""
	Declared   Handover = "Declared"
)

// Before says whether somebody has something to do before the writer is paused: those that clients come through.
type Before string

// Values of Before.
const (
	NothingBefore Before = ""
	SomeBefore    Before = "SomeBefore"
)

// Order to change the writer although it works, or although it cannot be asked.
type Order struct {
	// To is the pod that should write; any other than the one that does when empty.
	To string
	// Way in which it is carried out.
	Way Way
	// Loss that whoever gave it accepts.
	Loss Loss
	// By names the Operation that it is of; empty for none.
	By string
}

// Way in which an order is carried out.
type Way string

// Ways.
const (
	// HandOver: the writer hands over, while it works.
	HandOver Way = ""
	// AsNeeded: it hands over, and where it has failed another takes over whoever else decides on that: an update needs
	// it.
	AsNeeded Way = "AsNeeded"
	// TakeOver: another takes over at once, whatever the writer says.
	TakeOver Way = "TakeOver"
)

// Loss of data that is accepted.
type Loss string

// Values of Loss.
const (
	NoLoss Loss = ""
	// Accepted: a candidate may be behind by more than MaxLag, and by an unknown amount; the one that the order names
	// takes over even where another one has more.
	Accepted Loss = "Accepted"
)

// Pod is what is known of one pod.
type Pod struct {
	Name string
	// Presence of the pod.
	Presence Presence
	// Health as its agent reports it.
	Health report.Health
	// OutOfConnections says that its process answers, and turns the probe away for want of connections: it is alive.
	OutOfConnections bool
	// FailedFor is how long it had been unhealthy when its agent first said so.
	FailedFor time.Duration
	// Member is what its agent reports of itself; its identity is empty before the first report.
	Member Known
	// Accuses says that it follows, and has not been asked for an acknowledgement for a while.
	Accuses bool
	// Sync says whether it has the writer's data, but for what is on its way.
	Sync Sync
	// Reluctance is why it does not come to write, as its agent says, while it is well otherwise; empty for nothing.
	Reluctance string
	// Established says that it has the label of the role that writes.
	Established bool
	// Labelled says that it has a label of a role, so that Services may lead to it.
	Labelled bool
	// Blank says that it waits for a node and has no volume yet, so that nothing can have been written there.
	Blank bool
	// Order among candidates, and how far behind it is, where reports tell.
	Measurement Measurement
	// History of its data as it reports it, see Measurement.
	History string
}

// Presence of a pod.
type Presence string

// Presences.
const (
	Alive Presence = "Alive"
	// Leaving: it ends or has ended.
	Leaving Presence = "Leaving"
	// Unreachable: nobody reaches its node.
	Unreachable Presence = "Unreachable"
)

// Sync says how the data of a follower stands to that of the writer.
type Sync string

// Values of Sync; the zero value is a pod of which nobody says so.
const (
	OutOfSync Sync = ""
	InSync    Sync = "InSync"
)

// Known is what an agent says of itself as a member.
type Known struct {
	Identity    string
	Promised    int64
	Term        int64
	ListVersion int64
	Writing     bool
	// Primary is the pod that it goes by as the writer in term Promised; empty when it knows none.
	Primary string
}

// Measurement of a candidate.
type Measurement struct {
	// Order: the candidate with the largest becomes the writer.
	Order int64
	// Lag in bytes; nil where the plugin has no word for it.
	Lag *int64
	// History names the stream of writes that Order counts in, and Earlier the one that it goes on from. Orders of
	// different histories say nothing about each other. Empty where the plugin has no word for it.
	History, Earlier string
	// Silence is how many seconds ago it last heard of the writer; nil where it does not say, as one that has not heard of
	// any since it started.
	Silence *int64
	// Problem says why there is no measurement.
	Problem string
}

// follows says whether what was measured is of the writer's history, or goes on from it.
func (m Measurement) follows(history string) bool {
	return history != "" && (m.History == history || m.Earlier == history)
}

// descends says whether what was measured goes on from what another pod has, which went elsewhere.
func (m Measurement) descends(from Measurement) bool {
	return m.History != from.History && m.Earlier != "" && m.Earlier == from.History
}

// member is the pod as a member; ok is false before its agent said who it is.
func (p Pod) member() (m permission.Member, ok bool) {
	return permission.Member{Name: p.Name, Identity: p.Member.Identity}, p.Member.Identity != ""
}

// is says whether a pod is this very member, with the volume that it had.
func (p Pod) is(m permission.Member) bool { return p.Name == m.Name && p.Member.Identity == m.Identity }

func (f *Facts) pod(name string) *Pod {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Pods[i]
}

// Action is what a step does.
type Action string

// Actions.
const (
	// Write writes the record, guarded by its resource version, and takes the writer's label from the pod Step.Unlabel.
	Write Action = "Write"
	// Tell has the agent of the pod learn the record.
	Tell Action = "Tell"
	// Promise has the agent of the pod promise the term of the record.
	Promise Action = "Promise"
	// Ask asks the agent of the pod how it is.
	Ask Action = "Ask"
	// Measure runs the action that says how far the data of the pod is.
	Measure Action = "Measure"
	// Prepare runs the actions that come before Pause.
	Prepare Action = "Prepare"
	// Pause runs the action by which the writer stops taking writes.
	Pause Action = "Pause"
)

// Step is one thing to do, and why.
type Step struct {
	Action Action
	Pod    string
	// Record to write, and who was named last.
	Record permission.Record
	Former *permission.Member
	// Unlabel is the pod that loses its label with the record.
	Unlabel string
	// To is the pod that the writer is paused for.
	To string
	// Attempt of Prepare and Pause, from 1 in each term, and when it began.
	Attempt int
	Began   time.Duration
	// Until is before when a record has to be written, or not at all: the writer that is deposed by it takes no writes
	// that long. 0 for any time.
	Until time.Duration
	// Vouched is who has all that this writer has; nil where that is not known.
	Vouched *permission.Member
	// Change says how the term of a record to write began; nil where it goes on.
	Change *Change
	// Chosen is the measurement of the pod that a record to write names; nil for others, and where there is none.
	Chosen *Measurement
	Reason string
}

// Change is how a term begins.
type Change struct {
	Cause Cause
	// Why is a sentence on it.
	Why string
	// By names the Operation that asked for it; empty for none.
	By string
}

// Cause of a change of the writer.
type Cause string

// Causes.
const (
	// Failed: the writer failed, or somebody said so.
	Failed Cause = "Failed"
	// Ordered: it worked.
	Ordered Cause = "Ordered"
	// Recovered: members knew of a later term than the record.
	Recovered Cause = "Recovered"
)

// String returns the step as prose.
func (s Step) String() string {
	if s.Action == Write {
		return fmt.Sprintf("Write %s: %s", prose(s.Record), s.Reason)
	}
	return fmt.Sprintf("%s %s: %s", s.Action, s.Pod, s.Reason)
}

func prose(r permission.Record) string {
	text := fmt.Sprintf("term %d, ", r.Term)
	if r.Primary == nil {
		text += "nobody writes"
	} else {
		text += r.Primary.Name + " writes"
	}
	text += fmt.Sprintf(", list %d of", r.List.Version)
	for _, m := range r.List.Members {
		text += " " + m.Name
	}
	if r.Previous != nil {
		text += ", to be confirmed"
	}
	return text
}

// State of the set.
type State string

// States.
const (
	// Steady: the named writer writes, as far as anybody knows.
	Steady State = "Steady"
	// Starting: there is no record yet, or its writer has yet to write for the first time.
	Starting State = "Starting"
	// Changing: another writer is on its way.
	Changing State = "Changing"
	// Down: the writer is down, and nothing can be done, or not yet.
	Down State = "Down"
)

// Decision is what to do now.
type Decision struct {
	// Steps of which none waits for another. A Write is alone.
	Steps []Step
	// Wake is when to decide anew if nothing happens before; 0 for never.
	Wake time.Duration
	// State and a sentence on it, empty when steady.
	State   State
	Message string
	// Refused says why the order is not carried out; empty when it is, or when that is not known yet.
	Refused string
	// measuring says that there is no candidate yet, since measurements are not there.
	measuring bool
}

func (d *Decision) wakeAt(at time.Duration) {
	if d.Wake == 0 || at < d.Wake {
		d.Wake = at
	}
}

func (d *Decision) add(s Step, format string, args ...any) {
	s.Reason = fmt.Sprintf(format, args...)
	d.Steps = append(d.Steps, s)
}

// write makes a Write the only step.
func (d *Decision) write(s Step, format string, args ...any) {
	s.Action, d.Steps = Write, nil
	d.add(s, format, args...)
}
