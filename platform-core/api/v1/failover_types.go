// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Failover says when another pod takes over from one that writes and fails, where the engine decides who writes.
type Failover struct {
	// mode: Auto has another pod take over by itself, Manual only when a person says so. Default Auto.
	// +optional
	Mode FailoverMode `json:"mode,omitempty"`
	// after is how long the process of a pod that writes may be down before another takes over, between 1s and 10m. It is
	// started again in place meanwhile. The plugin's default when left out.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="after must be between 1s and 10m"
	After *metav1.Duration `json:"after,omitempty"`
	// maxLag is how much of the data of the pod that writes another one may lack to take over. Any when left out. Refused
	// where the plugin cannot tell.
	// +optional
	MaxLag *resource.Quantity `json:"maxLag,omitempty"`
}

// FailoverMode says who decides that a pod that writes and fails is replaced.
// +kubebuilder:validation:Enum=Auto;Manual
type FailoverMode string

// Modes of failover.
const (
	// FailoverAuto: the engine.
	FailoverAuto FailoverMode = "Auto"
	// FailoverManual: a person, by an Operation of template Failover.
	FailoverManual FailoverMode = "Manual"
)

// Durability says what becomes of a write that was acknowledged when the pod that took it is lost.
// +kubebuilder:validation:Enum=Synchronous;Asynchronous
type Durability string

// Durabilities.
const (
	// DurabilitySynchronous: another pod has it.
	DurabilitySynchronous Durability = "Synchronous"
	// DurabilityAsynchronous: the last ones may be lost, but for those of clients that wait for another pod to have them.
	DurabilityAsynchronous Durability = "Asynchronous"
)

// SynchronousShortage says what becomes of writes while too few synchronous replicas are left.
// +kubebuilder:validation:Enum=Wait;Continue
type SynchronousShortage string

// What becomes of writes.
const (
	// ShortageWait: they wait, default.
	ShortageWait SynchronousShortage = "Wait"
	// ShortageContinue: they go on with fewer copies, once the pods that are missing count as gone.
	ShortageContinue SynchronousShortage = "Continue"
)

// SetFailover is Failover with what the plugin says about it.
type SetFailover struct {
	Failover `json:",inline"`
	// order is a CEL expression over role and attributes that gives a whole number: of the pods that can take over, the
	// one with the largest does.
	// +required
	Order string `json:"order"`
	// lagAttribute is how many bytes a pod is behind the one that writes.
	// +optional
	LagAttribute string `json:"lagAttribute,omitempty"`
	// historyAttribute names the stream of writes that order counts in: what is ordered in another stream is no less and
	// no more.
	// +optional
	HistoryAttribute string `json:"historyAttribute,omitempty"`
	// earlierAttribute names the stream that the one of historyAttribute goes on from.
	// +optional
	EarlierAttribute string `json:"earlierAttribute,omitempty"`
	// lastContactAttribute is how many seconds ago a pod last heard of the primary. When the primary's stream is unknown,
	// the pod with the latest contact has the latest stream.
	// +optional
	LastContactAttribute string `json:"lastContactAttribute,omitempty"`
	// inSync is a CEL expression over role and attributes; true for a pod that has the data of the one that writes. Any
	// healthy one when left out.
	// +optional
	InSync string `json:"inSync,omitempty"`
	// synchronousReplicas is how many replicas should have a write before a client is told of it; 0 for none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SynchronousReplicas int32 `json:"synchronousReplicas,omitempty"`
	// shortage says what becomes of writes while fewer replicas than synchronousReplicas are left.
	// +optional
	Shortage SynchronousShortage `json:"shortage,omitempty"`
	// measure is the action whose outputs are attributes in order and lagAttribute.
	// +optional
	Measure string `json:"measure,omitempty"`
	// handover is the action by which the pod that writes stops taking writes for a while, before another takes over as
	// planned.
	// +optional
	Handover string `json:"handover,omitempty"`
	// before are actions of other components by which clients that come through them wait for a while, run before
	// handover.
	// +optional
	// +listType=atomic
	Before []FailoverBefore `json:"before,omitempty"`
}

// FailoverBefore is an action of another component of the Application.
type FailoverBefore struct {
	// component whose pods run it.
	Component string `json:"component"`
	// action by its name in the plugin.
	Action string `json:"action"`
}

// PrimaryRecord says which member is the primary of a set, where the engine decides it. Only the engine writes it.
type PrimaryRecord struct {
	// term grows at each change of the primary.
	Term int64 `json:"term"`
	// member is the primary of this term, the only one that may write; absent between two primaries.
	// +optional
	Member *SetMember `json:"member,omitempty"`
	// list of the members whose acknowledgement the primary needs.
	List MemberList `json:"list"`
	// previous is the list that it may still go by, until it confirmed list.
	// +optional
	Previous *MemberList `json:"previous,omitempty"`
	// former is the member that was named last.
	// +optional
	Former *SetMember `json:"former,omitempty"`
	// since when the record names its member, or none.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// data is the generation of the volumes that the members have; empty for those that the set was made with.
	// +optional
	Data string `json:"data,omitempty"`
	// access that clients had to those volumes last: Closed when they were never led to the data there, or not any more.
	// Default Open.
	// +optional
	Access DataAccess `json:"access,omitempty"`
	// changes are the latest terms, the last one last: how each began and who was named in it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Changes []PrimaryChange `json:"changes,omitempty"`
}

// MaxPrimaryChanges is how many changes a PrimaryRecord keeps.
const MaxPrimaryChanges = 8

// MaxFormerPrimaries is how many records of volumes are kept that pods had before.
const MaxFormerPrimaries = 8

// PrimaryChange is one term of a PrimaryRecord: why the one before ended, and who was named.
type PrimaryChange struct {
	// term that began.
	Term int64 `json:"term"`
	// cause of the change.
	Cause PrimaryChangeCause `json:"cause"`
	// from is the primary of the term before; empty where it is not known.
	// +optional
	From string `json:"from,omitempty"`
	// reason is a sentence on why it ended.
	// +optional
	Reason string `json:"reason,omitempty"`
	// operation that asked for it; empty for none.
	// +optional
	Operation string `json:"operation,omitempty"`
	// deposed is when nobody could write any more by the record.
	Deposed metav1.MicroTime `json:"deposed"`
	// to is the pod that became the primary; empty before.
	// +optional
	To string `json:"to,omitempty"`
	// named is when it was.
	// +optional
	Named *metav1.MicroTime `json:"named,omitempty"`
	// choice is a sentence on why it was chosen.
	// +optional
	Choice string `json:"choice,omitempty"`
	// order is the measure that candidates are compared by.
	// +optional
	Order *int64 `json:"order,omitempty"`
	// lag is how many bytes it was behind, where the plugin can tell.
	// +optional
	Lag *int64 `json:"lag,omitempty"`
}

// PrimaryChangeCause says why a term ended.
// +kubebuilder:validation:Enum=Failure;Order;Recovery
type PrimaryChangeCause string

// Causes of a change of the primary.
const (
	// PrimaryFailed: the primary failed, or somebody said so.
	PrimaryFailed PrimaryChangeCause = "Failure"
	// PrimaryOrdered: it worked, and handed over for a rollout, a person or an Operation.
	PrimaryOrdered PrimaryChangeCause = "Order"
	// PrimaryRecovered: the members knew of a later term than the record, as after a restored API server.
	PrimaryRecovered PrimaryChangeCause = "Recovery"
)

// SetMember is a pod and the data that it has.
type SetMember struct {
	// name of the pod.
	Name string `json:"name"`
	// identity of its volume: another volume under the same name is another member.
	Identity string `json:"identity"`
}

// MemberList is a list of members.
type MemberList struct {
	// version grows at each change.
	Version int64 `json:"version"`
	// members of the list.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []SetMember `json:"members,omitempty"`
	// synchronousReplicas is how many of the other members have a write before a client is told of it.
	// +optional
	SynchronousReplicas int32 `json:"synchronousReplicas,omitempty"`
}
