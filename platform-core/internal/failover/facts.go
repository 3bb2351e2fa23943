// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

// Facts are the observed state of a set. Times are those of this process.
type Facts struct {
	// Now is the time of the decision.
	Now time.Duration
	// Record names the primary, its term and the members.
	Record permission.Record
	// Former is the member that was the primary last; nil if there was none.
	Former *permission.Member
	// NamedFor is how long the record has named its primary; 0 if that is not known.
	NamedFor time.Duration
	// Mode of failover.
	Mode Mode
	// After is how long the primary is down before a failover.
	After time.Duration
	// MaxLag is the largest lag of a candidate in bytes; nil for no limit.
	MaxLag *int64
	// SynchronousReplicas is how many replicas acknowledge each write.
	SynchronousReplicas SynchronousReplicas
	// Order of a switchover: for the primary, or for the former one while none is named. It is nil for none.
	Order *Order
	// Measures says where the measurements of candidates come from.
	Measures Measures
	// Handover says whether the primary can be paused before it is deposed.
	Handover Handover
	// Before says whether proxies in front of the set prepare before the primary is paused.
	Before Before
	// Pods that exist, by ordinal, and Wanted the names of those that should exist.
	Pods   []Pod
	Wanted []string
	// handingOver says that the primary works and its own measurement will show which pod has caught up.
	handingOver bool
}

// SynchronousReplicas acknowledge a write before its client gets the answer.
type SynchronousReplicas struct {
	// Wanted is the number of replicas; 0 for none.
	Wanted int
	// Shortage says what happens to writes while there are fewer replicas than that.
	Shortage Shortage
}

// Shortage is the behaviour with too few synchronous replicas.
type Shortage string

// Values of Shortage.
const (
	// Wait: writes wait, and the last members that had copies stay in the list however long they are unhealthy.
	Wait Shortage = "Wait"
	// Continue: writes go on with fewer copies.
	Continue Shortage = "Continue"
)

// Mode says who decides on a failover of a failed primary: the engine, or a person.
type Mode string

// Modes of failover.
const (
	Auto   Mode = "Auto"
	Manual Mode = "Manual"
)

// Measures says where the measurements of candidates come from.
type Measures string

// Values of Measures.
const (
	// FromReports: measurements are in the reports of the agents.
	FromReports Measures = "FromReports"
	// ByAction: an action of the plugin measures a pod.
	ByAction Measures = "ByAction"
)

// Handover says whether the primary can be paused before it is deposed.
type Handover string

// Values of Handover.
const (
	NoHandover Handover = ""
	Declared   Handover = "Declared"
)

// Before says whether proxies, such as a connection pooler, prepare before the primary is paused.
type Before string

// Values of Before.
const (
	NothingBefore Before = ""
	SomeBefore    Before = "SomeBefore"
)

// Order is a request for a switchover, or for a failover although the primary cannot be reached.
type Order struct {
	// To is the pod that becomes the primary; empty for any other than the current one.
	To string
	// Way of the change.
	Way Way
	// Loss of data that the requester accepts.
	Loss Loss
	// By is the name of the Operation; empty for none.
	By string
}

// Way of a change of the primary.
type Way string

// Ways.
const (
	// HandOver: the primary, which works, hands over.
	HandOver Way = ""
	// AsNeeded: the primary hands over; a failed one is replaced whatever the mode is, since an update needs that.
	AsNeeded Way = "AsNeeded"
	// TakeOver: a candidate takes over at once, without asking the primary.
	TakeOver Way = "TakeOver"
)

// Loss says which loss of data is accepted.
type Loss string

// Values of Loss.
const (
	NoLoss Loss = ""
	// Accepted: a candidate may lag by more than MaxLag or by an unknown amount, and the ordered pod takes over even if
	// another one has more data.
	Accepted Loss = "Accepted"
)

// Pod is the observed state of one pod.
type Pod struct {
	Name string
	// Presence says whether the pod runs and its node is reachable.
	Presence Presence
	// Health as its agent reports it.
	Health report.Health
	// OutOfConnections says that the process answers but has no connection left for the probe: it is alive.
	OutOfConnections bool
	// FailedFor is how long the process had been unhealthy when its agent first reported it.
	FailedFor time.Duration
	// Member is the membership state that the agent reports; its identity is empty before the first report.
	Member MemberState
	// SuspectsPrimary says that this replica has not been asked for an acknowledgement for a while.
	SuspectsPrimary bool
	// Sync says whether the replica has the data of the primary, except for what is in transit.
	Sync Sync
	// NotWritingReason is why the healthy process does not become the primary, as its agent reports; empty if nothing
	// prevents it.
	NotWritingReason string
	// HasPrimaryLabel says that the pod has the label of a role that writes.
	HasPrimaryLabel bool
	// HasRoleLabel says that the pod has the label of a role, so that Services may select it.
	HasRoleLabel bool
	// WithoutVolume says that the pod is not scheduled and its volume is not provisioned: nothing can have been written.
	WithoutVolume bool
	// Measurement of its data, where reports have it.
	Measurement Measurement
	// History of its data as it reports it; see Measurement.
	History string
}

// Presence of a pod.
type Presence string

// Presences.
const (
	Alive Presence = "Alive"
	// Leaving: the pod is terminating or has ended.
	Leaving Presence = "Leaving"
	// Unreachable: the node of the pod is unreachable.
	Unreachable Presence = "Unreachable"
)

// Sync says how the data of a replica compares to that of the primary.
type Sync string

// Values of Sync; the zero value is a pod that is not known to be in sync.
const (
	OutOfSync Sync = ""
	InSync    Sync = "InSync"
)

// MemberState is what an agent says of itself as a member.
type MemberState struct {
	Identity    string
	Promised    int64
	Term        int64
	ListVersion int64
	Writing     bool
	// Primary is the pod that it follows in term Promised; empty if it knows none.
	Primary string
}

// Measurement says how advanced the data of a candidate is.
type Measurement struct {
	// Order of candidates within one history: the largest is the most advanced.
	Order int64
	// Lag behind the primary in bytes; nil if the plugin does not define it.
	Lag *int64
	// History identifies the stream of writes that Order counts in, for example a timeline or a replication id. Earlier is
	// the history that it continues. Orders of different histories cannot be compared. Both are empty if the plugin does
	// not define them.
	History, Earlier string
	// LastContact is the number of seconds since the last contact with the primary; nil if it is not reported, for example
	// because there was none since the start.
	LastContact *int64
	// Problem is why the measurement failed.
	Problem string
}

// follows says whether the data is of a history, or continues it.
func (m Measurement) follows(history string) bool {
	return history != "" && (m.History == history || m.Earlier == history)
}

// descends says whether the data continues the history of another pod's data.
func (m Measurement) descends(from Measurement) bool {
	return m.History != from.History && m.Earlier != "" && m.Earlier == from.History
}

// member returns the pod as a member; ok is false before its agent reported the identity.
func (p Pod) member() (m permission.Member, ok bool) {
	return permission.Member{Name: p.Name, Identity: p.Member.Identity}, p.Member.Identity != ""
}

// is says whether a pod is this member, with the same volume.
func (p Pod) is(m permission.Member) bool { return p.Name == m.Name && p.Member.Identity == m.Identity }

func (f *Facts) pod(name string) *Pod {
	i := slices.IndexFunc(f.Pods, func(p Pod) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Pods[i]
}

// Action of a step.
type Action string

// Actions.
const (
	// Write writes the record with its resource version as a precondition, and removes the primary label from the pod
	// Step.Unlabel.
	Write Action = "Write"
	// Tell sends the record to the agent of the pod.
	Tell Action = "Tell"
	// Promise asks the agent of the pod to promise the term of the record.
	Promise Action = "Promise"
	// Ask reads the membership state from the agent of the pod.
	Ask Action = "Ask"
	// Measure runs the action that measures the data of the pod.
	Measure Action = "Measure"
	// Prepare runs the actions of proxies that precede Pause.
	Prepare Action = "Prepare"
	// Pause runs the action that makes the primary stop taking writes.
	Pause Action = "Pause"
)

// Step is one action with its reason.
type Step struct {
	Action Action
	Pod    string
	// Record to write, and the primary that was named last.
	Record permission.Record
	Former *permission.Member
	// Unlabel is the pod that loses the primary label with the record.
	Unlabel string
	// To is the candidate that the primary is paused for.
	To string
	// Attempt of Prepare and Pause, from 1 in each term, and when it began.
	Attempt int
	Began   time.Duration
	// Until is the time before which the record has to be written: the paused primary takes no writes until then. It is 0
	// for no limit.
	Until time.Duration
	// CaughtUp is the member that has all data of the paused primary; nil if that is not known.
	CaughtUp *permission.Member
	// Change says why a new term begins; nil within a term.
	Change *Change
	// Chosen is the measurement of the primary that the record names; nil for other records, and if there is none.
	Chosen *Measurement
	Reason string
}

// Change is the reason of a new term.
type Change struct {
	Cause Cause
	// Why is a sentence for people.
	Why string
	// By is the name of the Operation that ordered it; empty for none.
	By string
}

// Cause of a new term.
type Cause string

// Causes.
const (
	// Failed: the primary failed, or an order said so.
	Failed Cause = "Failed"
	// Ordered: a switchover from a primary that worked.
	Ordered Cause = "Ordered"
	// Recovered: members had promised a later term than the record's.
	Recovered Cause = "Recovered"
)

// String returns the step as a sentence.
func (s Step) String() string {
	if s.Action == Write {
		return fmt.Sprintf("Write %s: %s", prose(s.Record), s.Reason)
	}
	return fmt.Sprintf("%s %s: %s", s.Action, s.Pod, s.Reason)
}

func prose(r permission.Record) string {
	text := fmt.Sprintf("term %d, ", r.Term)
	if r.Primary == nil {
		text += "no primary"
	} else {
		text += "primary " + r.Primary.Name
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
	// Steady: the named primary writes, as far as it is known.
	Steady State = "Steady"
	// Starting: there is no record yet, or its primary has not written yet.
	Starting State = "Starting"
	// Changing: a switchover or failover is in progress.
	Changing State = "Changing"
	// Down: the primary is down, and nothing can be done, or not yet.
	Down State = "Down"
)

// Decision is the outcome of Plan.
type Decision struct {
	// Steps are independent of each other. A Write is the only step.
	Steps []Step
	// Wake is when to plan again if nothing happens before; 0 for never.
	Wake time.Duration
	// State of the set, and a message on it, which is empty when it is steady.
	State   State
	Message string
	// Refused is why the order is rejected; empty if it is not, or if that is not known yet.
	Refused string
	// measuring says that there is no candidate yet because measurements are pending.
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

// write makes a Write of the record the only step.
func (d *Decision) write(s Step, format string, args ...any) {
	s.Action, d.Steps = Write, nil
	d.add(s, format, args...)
}
