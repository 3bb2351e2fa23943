// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
)

// DefaultFailoverSeconds is how long a primary is gone before another takes over, when neither user nor plugin say.
const DefaultFailoverSeconds = 2

// Failover says how another pod becomes the primary of a component whose authority is the engine. It is in force where
// a topology allows more than one pod, or Single is set.
type Failover struct {
	// Order is a CEL expression over role and attributes, as the probe of a candidate and Measure tell them, that gives a
	// whole number. Of the candidates whose data is safe, the one with the largest becomes the primary.
	Order string `json:"order"`
	// LagAttribute, of the probe or of Measure, is how many bytes a candidate is behind the primary, as text of a whole
	// number.
	LagAttribute string `json:"lagAttribute,omitempty"`
	// HistoryAttribute, of the probe, names the stream of writes that Order counts in: a text that changes when a pod goes
	// on with other data than before. Orders of different streams are not compared: data of the primary's stream comes
	// first. EarlierAttribute, of the probe or of Measure, is the stream that it goes on from, as when a pod was promoted.
	HistoryAttribute string `json:"historyAttribute,omitempty"`
	EarlierAttribute string `json:"earlierAttribute,omitempty"`
	// LastContactAttribute, of the probe or of Measure, is how many seconds ago a pod last heard of the primary, as text
	// of a whole number; empty where it does not know. A primary whose process was started again may begin a stream and
	// end before it reports it: the pod with the latest contact has that stream.
	LastContactAttribute string `json:"lastContactAttribute,omitempty"`
	// InSync is a CEL expression over role and attributes, as the probe reports them, that gives true for a pod that
	// follows and has the primary's data but for what is on its way. Default true.
	InSync string `json:"inSync,omitempty"`
	// AfterSeconds that the primary has been gone. Default DefaultFailoverSeconds.
	AfterSeconds int `json:"afterSeconds,omitempty"`
	// SynchronousReplicas have a write before a client is told of it. Default none.
	SynchronousReplicas *FailoverSynchronousReplicas `json:"synchronousReplicas,omitempty"`
	// PrimaryArgs are appended to the command of a process that is started as the primary, ReplicaArgs to that of a
	// replica; in those ${primary.fqdn} is the DNS name of the primary.
	PrimaryArgs []string `json:"primaryArgs,omitempty"`
	ReplicaArgs []string `json:"replicaArgs,omitempty"`
	// Single has a pod that is alone be on record as the primary, too, with its volume: it never runs on another one.
	Single bool `json:"single,omitempty"`
	// Promote is the action that makes a pod the primary.
	Promote string `json:"promote"`
	// Follow is the action that has a pod follow the primary, its parameter primary. It is run in a former primary, too,
	// and undoes there what that wrote beyond the new one.
	Follow string `json:"follow"`
	// FollowOnStart runs Follow also after a process was started as a replica.
	FollowOnStart bool `json:"followOnStart,omitempty"`
	// FollowIntervalSeconds is how often Follow is run again in a replica, after it has succeeded for the first time.
	// Default never.
	FollowIntervalSeconds int `json:"followIntervalSeconds,omitempty"`
	// UpdateMembers is the action by which the primary takes over another list of members, which plan.MemberFile has. The
	// list is confirmed when the action has succeeded; without the action at once.
	UpdateMembers string `json:"updateMembers,omitempty"`
	// Measure is the action that says what changes too often to be reported: its outputs are attributes in Order and
	// LagAttribute.
	Measure string `json:"measure,omitempty"`
	// Handover is the action by which the primary takes no writes for a few seconds, so that a candidate can catch up
	// before a planned change.
	Handover string `json:"handover,omitempty"`
	// Before are actions of other components by which clients that come through them wait for a few seconds, run before
	// Handover. They are run in every pod that is ready, and nobody waits for one that takes long.
	Before []FailoverBefore `json:"before,omitempty"`
}

// FailoverBefore is an action of another component.
type FailoverBefore struct {
	Component string `json:"component"`
	Action    string `json:"action"`
}

// FailoverSynchronousReplicas names the parameters that say how many replicas have each write. The process keeps to the
// list of members and the number that UpdateMembers gives it, so that what a failover counts on is on record before the
// process does.
type FailoverSynchronousReplicas struct {
	// Parameter is a whole number: how many others have a write before it is acknowledged; 0 for none.
	Parameter string `json:"parameter"`
	// Shortage is "wait" or "continue": what becomes of writes while fewer others are left. Without it they wait.
	Shortage string `json:"shortage,omitempty"`
}

// Actions that the process manager runs by itself.
func (f *Failover) Actions() []string {
	return []string{f.Promote, f.Follow, f.UpdateMembers}
}

// Seconds that the primary has been gone.
func (f *Failover) Seconds() int { return cmp.Or(f.AfterSeconds, DefaultFailoverSeconds) }
