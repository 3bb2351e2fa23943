// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Effect is one thing to bring about, or to look at. Exactly one of its kinds is set.
type Effect struct {
	// Key names it: the same whenever the same is decided on. Agents answer a repeated one from their record.
	Key string
	// Call of the process manager or the ops agent of a pod.
	Call *Call
	// Child is an Operation to be there.
	Child *Child
	// Object to read or to write.
	Object *Object
	// Edit of the target's spec.
	Edit *Edit
	// Handover that a set is to be asked for.
	Handover *Handover
	// Rebuild of a pod.
	Rebuild *Rebuild
	// Job is a pod that runs to completion.
	Job *Job
	// Rotation makes a password anew.
	Rotation *Rotation
	// Life makes or deletes the target.
	Life *Life
	// Backup is one to be made, or to look at.
	Backup *Backup
	// Drill is what is to be done about a restore drill.
	Drill *Drill
	// Data is what is to be done about the volumes of a set.
	Data *Data
	// HTTP is a call to make.
	HTTP *HTTPCall
}

// Call is a call to an agent of one pod.
type Call struct {
	// Pod by name, and UID of the one that is meant.
	Pod string
	UID types.UID
	// Method of the process manager, with the signal for AgentSignal; empty for an action.
	Method optemplate.AgentCall
	Signal string
	// Action of the ops agent, and its parameters.
	Action     string
	Parameters map[string]string
}

// Child is an Operation that a step runs.
type Child struct {
	// Verb to do.
	Verb ChildVerb
	// Name in the namespace of the Operation, which owns it.
	Name string
	// Application that it acts on; that of the Operation when empty.
	Application string
	// Spec of it.
	Spec platformv1.OperationSpec
}

// ChildVerb is what is done about a Child.
type ChildVerb string

// Verbs.
const (
	// ChildRun creates it, or looks how it stands when it exists.
	ChildRun ChildVerb = ""
	// ChildLook looks how it stands.
	ChildLook ChildVerb = "look"
)

// Object is one in the namespace of the target.
type Object struct {
	// Verb to do to it.
	Verb ObjectVerb
	optemplate.ObjectReference
	// UID of the one that is to be deleted.
	UID types.UID
	// Content to apply or to merge, complete with the fields that name the object.
	Content map[string]any
}

// ObjectVerb is what is done to an object.
type ObjectVerb string

// Verbs.
const (
	ObjectGet    ObjectVerb = "get"
	ObjectApply  ObjectVerb = "apply"
	ObjectPatch  ObjectVerb = "patch"
	ObjectDelete ObjectVerb = "delete"
)

// Edit sets fields of the Application's spec, at the outermost object that declares them, or all of that object's own
// spec.
type Edit struct {
	Fields []FieldEdit
	// Spec is the whole spec of the outermost object in place of fields; nil for none.
	Spec map[string]any
	// Ownership says what becomes of fields that a GitOps manager owns.
	Ownership Ownership
}

// FieldEdit is one field and its value.
type FieldEdit struct {
	// Field below spec, for example components[redis].replicas; an element of a list is named by its name.
	Field string
	// Value as of JSON.
	Value any
}

// Ownership says what becomes of fields that a GitOps manager owns.
type Ownership string

// Values of Ownership; the zero value refuses to change them.
const (
	RespectOwners Ownership = ""
	OverrideOwner Ownership = "Override"
)

// Handover asks a set to have its primary hand over, or takes that back.
type Handover struct {
	// Set is the name of the WorkloadSet.
	Set string
	// From is the pod that writes, To the one that is to; any that can when To is empty. Both are empty to take it back.
	From, To string
	// Way in which it is to happen.
	Way platformv1.HandoverWay
}

// Rebuild deletes a pod and its volumes, each only while it is the very one.
type Rebuild struct {
	Pod    string
	UID    types.UID
	Claims []Claim
}

// Claim is a volume of a pod.
type Claim struct {
	// Name and UID of the PersistentVolumeClaim.
	Name string
	UID  types.UID
	// Presence of it: PodRunning, or PodGoing when it is being deleted.
	Presence Presence
}

// Answer is what became of an effect.
type Answer struct {
	// Call as the agent has it on record; zero when Problem is set.
	Call report.Call
	// Latest is the key of the latest call that the process manager has on record. It differs from Call.Key
	// when somebody else called after us, so that the report shows that call in place of ours.
	Latest string
	// Failure says how the effect itself failed; empty when it was brought about.
	Failure Failure
	// Problem is a sentence that says why it failed.
	Problem string
	// Reason of a Problem that somebody acts on, one of platformv1.Reason…; empty for none.
	Reason string
	// Outputs of an action or an edit, by name.
	Outputs map[string]string
	// Object that was read; nil when it is absent.
	Object map[string]any
	// Child is the state of the Operation.
	Child platformv1.OperationStatus
	// Job is how a Job stands.
	Job JobState
	// HTTP is the answer to a call.
	HTTP *HTTPResponse
	// Backup as it is; nil when it is absent.
	Backup *platformv1.Backup
	// Instance of a drill as it is; nil when it is absent. Remains are what is left of one that is being removed, in
	// words.
	Instance *platformv1.Application
	Remains  []string
}

// Failure says how an effect failed.
type Failure string

// Values of Failure.
const (
	// FailureUnreachable: nobody answered, or it was the wrong moment; it is to be tried again.
	FailureUnreachable Failure = "Unreachable"
	// FailureRefused: it will not be done.
	FailureRefused Failure = "Refused"
)
