// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperationSpec asks for one run of a named procedure. It is immutable but for cancel, suspend, approval and approvals.
// +kubebuilder:validation:XValidation:rule="has(self.templateRef) == has(oldSelf.templateRef) && (!has(self.templateRef) || self.templateRef == oldSelf.templateRef) && has(self.template) == has(oldSelf.template) && (!has(self.template) || self.template == oldSelf.template) && has(self.targetRef) == has(oldSelf.targetRef) && (!has(self.targetRef) || self.targetRef == oldSelf.targetRef) && has(self.parameters) == has(oldSelf.parameters) && (!has(self.parameters) || self.parameters == oldSelf.parameters) && has(self.targetSpec) == has(oldSelf.targetSpec) && (!has(self.targetSpec) || self.targetSpec == oldSelf.targetSpec) && has(self.timeout) == has(oldSelf.timeout) && (!has(self.timeout) || duration(self.timeout) == duration(oldSelf.timeout)) && has(self.ttlSecondsAfterFinished) == has(oldSelf.ttlSecondsAfterFinished) && (!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished == oldSelf.ttlSecondsAfterFinished) && has(self.retry) == has(oldSelf.retry) && (!has(self.retry) || self.retry.limit == oldSelf.retry.limit && has(self.retry.backoff) == has(oldSelf.retry.backoff) && (!has(self.retry.backoff) || duration(self.retry.backoff) == duration(oldSelf.retry.backoff))) && has(self.retryOf) == has(oldSelf.retryOf) && (!has(self.retryOf) || self.retryOf == oldSelf.retryOf) && has(self.dryRun) == has(oldSelf.dryRun) && (!has(self.dryRun) || self.dryRun == oldSelf.dryRun) && has(self.force) == has(oldSelf.force) && (!has(self.force) || self.force == oldSelf.force) && has(self.serviceAccountName) == has(oldSelf.serviceAccountName) && (!has(self.serviceAccountName) || self.serviceAccountName == oldSelf.serviceAccountName) && has(self.author) == has(oldSelf.author) && (!has(self.author) || self.author == oldSelf.author)",message="the spec of an Operation is immutable but for cancel and approval: create another Operation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.cancel) || !oldSelf.cancel || has(self.cancel) && self.cancel",message="cancel cannot be taken back: create another Operation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.approval) || has(self.approval) && self.approval == oldSelf.approval",message="approval is given once and cannot be changed"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.approvals) || has(self.approvals) && oldSelf.approvals.all(user, user in self.approvals && self.approvals[user] == oldSelf.approvals[user])",message="a decision in approvals is given once and cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.templateRef) != has(self.template)",message="set one of templateRef and template"
// +kubebuilder:validation:XValidation:rule="has(self.templateRef) == has(self.targetRef)",message="targetRef is required with templateRef, and is not allowed with template: an inline template acts on no instance"
// +kubebuilder:validation:XValidation:rule="!has(self.suspend) || has(self.template)",message="suspend is for an inline template: set suspend of the instance, or cancel the Operation"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.targetSpec)",message="targetSpec is not allowed with template: it is for templates that take the spec of a target"
type OperationSpec struct {
	// templateRef names the procedure, for example Restart: a template of the target's plugin or, where that has none, of
	// the engine; or plugin@version/Name.
	// +optional
	// +kubebuilder:validation:Pattern=`^([a-z][-a-z0-9]*@[0-9A-Za-z.-]+/)?[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=128
	TemplateRef string `json:"templateRef,omitempty"`
	// template is the procedure itself, as YAML or JSON in the format of the operations part of a plugin. It acts on no
	// instance: its steps wait for, apply, patch and delete objects of the namespace, and wait for an approval. Steps
	// other than an approval need serviceAccountName and are taken with the rights of that account.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Template string `json:"template,omitempty"`
	// targetRef names the object to act on, in the same namespace: a typed object, an Application, a Component or a
	// WorkloadSet. Required with templateRef.
	// +optional
	TargetRef TargetReference `json:"targetRef,omitzero"`
	// parameters of the procedure, checked against its template.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// targetSpec is the whole spec that the target would have, as YAML or JSON, for a template that takes one, such as
	// Plan.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	TargetSpec string `json:"targetSpec,omitempty"`
	// timeout of the whole run. That of the template when left out, and 10m where that has none.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="timeout must be greater than 0"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ttlSecondsAfterFinished is how long the record is kept after its end; for ever when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// retry of the steps whose template says nothing about that. Not at all when left out.
	// +optional
	Retry *OperationRetry `json:"retry,omitempty"`
	// retryOf names an Operation that failed or was cancelled, of the same template, target and parameters: this one
	// begins with the steps that did not succeed there.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RetryOf string `json:"retryOf,omitempty"`
	// dryRun has status.plan say what would be done, and nothing is touched.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// force has fields of the target changed that a GitOps manager owns. Its next synchronisation reverts them.
	// +optional
	Force bool `json:"force,omitempty"`
	// serviceAccountName is the account, in the same namespace, that steps act as which apply, patch or delete objects,
	// and whose token the pods of jobs have. The operator's own rights, and no token, when left out. Refused for a
	// template without such steps.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// suspend begins no step and no attempt while it is true: what is under way goes on, and so does the time of the run.
	// It may change, and is for inline templates.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// author is the user who asks for this, as the API server knows him. A template with an approval needs it: nobody
	// approves his own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Author string `json:"author,omitempty"`
	// approval is what someone else than the author decided, where the template waits for that. It is added to an
	// Operation that is there.
	// +optional
	Approval *OperationApproval `json:"approval,omitempty"`
	// approvals are decisions by user, as the API server knows him, where the template waits for several users. Each
	// writes his own, once.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Approvals map[string]OperationDecision `json:"approvals,omitempty"`
	// cancel ends the run at the next safe point; what the template declares to compensate is done. It cannot be taken
	// back.
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// RunStatus is what became of an Operation that an object of a typed kind declares. It outlives the record of the
// Operation.
type RunStatus struct {
	// name by which the object declares the Operation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// operation is the name of the Operation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Operation string `json:"operation"`
	// uid of the Operation; absent until it has been seen.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// phase of the Operation when it was last seen; Cancelled also when it was deleted before its end.
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`
	// startTime is when the Operation began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the Operation ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// OperationApproval is a decision about an Operation.
type OperationApproval struct {
	// by is the user who decided, as the API server knows him.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
	// decision: Approved or Rejected.
	// +required
	Decision OperationDecision `json:"decision"`
	// reason of the decision, for the record. One who rejects where several users decide gives it here as well.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// OperationDecision is what an approval says.
// +kubebuilder:validation:Enum=Approved;Rejected
type OperationDecision string

// Decisions.
const (
	OperationApproved OperationDecision = "Approved"
	OperationRejected OperationDecision = "Rejected"
)

// TargetReference names an object in the same namespace.
type TargetReference struct {
	// apiVersion of the object, group and version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// OperationPhase is where a run stands.
type OperationPhase string

// Phases of an Operation and of its steps.
const (
	OperationPending   OperationPhase = "Pending"
	OperationRunning   OperationPhase = "Running"
	OperationSucceeded OperationPhase = "Succeeded"
	OperationFailed    OperationPhase = "Failed"
	// OperationCancelled: it ended since someone asked for that.
	OperationCancelled OperationPhase = "Cancelled"
	// OperationAwaitingApproval: a step waits for somebody to approve.
	OperationAwaitingApproval OperationPhase = "AwaitingApproval"
	// OperationSkipped is a step that was not wanted, by its condition.
	OperationSkipped OperationPhase = "Skipped"
)

// Ended says whether an Operation in this phase changes no more.
func (p OperationPhase) Ended() bool {
	return p == OperationSucceeded || p == OperationFailed || p == OperationCancelled
}

// OperationTrigger says who caused an Operation.
type OperationTrigger string

// Triggers. An Operation that a person creates has trigger User.
const (
	TriggerUser OperationTrigger = "User"
	// TriggerSpec: the engine made it, to record what an edited spec brought about.
	TriggerSpec OperationTrigger = "Spec"
	// TriggerSchedule: a schedule of the Application came due.
	TriggerSchedule OperationTrigger = "Schedule"
	// TriggerFailover: the engine made it, to record that it gave a set another writer.
	TriggerFailover OperationTrigger = "Failover"
)

// OperationStatus is the record of a run.
type OperationStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase: Pending, Running, AwaitingApproval, Succeeded, Failed or Cancelled.
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`
	// conditions: Ready (True once succeeded), Reconciling and Stalled; PointOfNoReturn, where the template has one, and
	// Held, of one that waits or waited for a maintenance window.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// currentStep is the lowest unfinished index of the topologically sorted steps.
	// +optional
	CurrentStep int32 `json:"currentStep"`
	// progress is a short text for printing, for example "1/2 restart: pod 1 of 3".
	// +optional
	Progress string `json:"progress,omitempty"`
	// steps in topological order.
	// +optional
	// +listType=map
	// +listMapKey=name
	Steps []StepStatus `json:"steps,omitempty"`
	// outputs of an inline template, once the run has succeeded. One that is no string is kept as its JSON text.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// artifacts says where the files are that steps hand on; absent where they hand on none.
	// +optional
	Artifacts *OperationArtifacts `json:"artifacts,omitempty"`
	// application that the target belongs to.
	// +optional
	Application string `json:"application,omitempty"`
	// plugin that the target was made from when the run began, whose template it is or would be; one that upgrades the
	// plugin goes on with that.
	// +optional
	Plugin *PluginReference `json:"plugin,omitempty"`
	// startTime is when the first step began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// timeout is how long the run may take, of the spec, the template or by default; of a dry run how long it might. A
	// record of what the engine does by itself has none.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// error says why the run failed and what to do.
	// +optional
	Error string `json:"error,omitempty"`
	// trigger says who caused the run.
	// +optional
	Trigger OperationTrigger `json:"trigger,omitempty"`
	// plan is what a dry run would do, in order.
	// +optional
	// +listType=atomic
	Plan []string `json:"plan,omitempty"`
	// changes are what the engine would do to objects for what a dry run edits, in order.
	// +optional
	// +listType=atomic
	Changes []PlannedChange `json:"changes,omitempty"`
	// ending is why a run that ends goes on with the steps that compensate; empty for one that does not.
	// +optional
	Ending OperationEnding `json:"ending,omitempty"`
}

// PlannedChange is one thing that the engine would do to an object, and why.
type PlannedChange struct {
	// component that the object is part of; empty for one of the Application as a whole.
	// +optional
	Component string `json:"component,omitempty"`
	// kind of the object, for example Pod.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// action that is taken: Create, Update or Delete; Grow of a volume; Recreate, Restart, Resize, Reload or SwitchOver of
	// a pod.
	Action PlannedAction `json:"action"`
	// to is the pod that takes over, for SwitchOver.
	// +optional
	To string `json:"to,omitempty"`
	// reason in words.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// String returns the change as prose.
func (c PlannedChange) String() string {
	text := fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Name)
	if c.To != "" {
		text += " to " + c.To
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// PlannedAction is what would be done to an object.
type PlannedAction string

// Actions.
const (
	PlannedCreate PlannedAction = "Create"
	PlannedUpdate PlannedAction = "Update"
	PlannedDelete PlannedAction = "Delete"
	// PlannedGrow: a volume gets larger.
	PlannedGrow PlannedAction = "Grow"
	// PlannedRecreate: another pod takes the place of this one.
	PlannedRecreate PlannedAction = "Recreate"
	// PlannedRestart: the process restarts in the pod, where need be with another image.
	PlannedRestart PlannedAction = "Restart"
	// PlannedResize: the pod gets other resources while it runs on.
	PlannedResize PlannedAction = "Resize"
	// PlannedReload: the process takes its configuration over while it runs on.
	PlannedReload PlannedAction = "Reload"
	// PlannedSwitchOver: the pod, which takes writes, hands over.
	PlannedSwitchOver PlannedAction = "SwitchOver"
)

// OperationEnding is how a run ends that has yet to compensate.
type OperationEnding string

// Ways in which a run ends early.
const (
	EndingFailed    OperationEnding = "Failed"
	EndingCancelled OperationEnding = "Cancelled"
)

// StepStatus is the record of one step.
type StepStatus struct {
	// name of the step in the template.
	Name string `json:"name"`
	// phase: Pending, Running, Succeeded, Failed, Skipped or Cancelled.
	Phase OperationPhase `json:"phase"`
	// attempts is the number of times that the step was begun.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// startTime is when the step was first begun.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the step ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// nextAttemptTime is when a step that failed is tried again.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`
	// outputs of the step, by name. One that is no string is kept as its JSON text.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// outputTypes are the types of those outputs that are no strings, by name.
	// +optional
	OutputTypes map[string]OutputType `json:"outputTypes,omitempty"`
	// artifacts are the files that the step has handed on.
	// +optional
	// +listType=map
	// +listMapKey=name
	Artifacts []StepArtifact `json:"artifacts,omitempty"`
	// message says what the step is doing or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// items counts the items of a forEach of an inline template. targets has only those of them that are under way or
	// failed.
	// +optional
	Items *StepItems `json:"items,omitempty"`
	// targets are the pods that the step acts on, or the items of its forEach, in order, each with its progress.
	// +optional
	// +listType=map
	// +listMapKey=name
	Targets []StepTarget `json:"targets,omitempty"`
}

// OutputType is the type that an output of a step has in expressions.
// +kubebuilder:validation:Enum=string;int;number;bool;list;object
type OutputType string

// Values of OutputType.
const (
	// OutputString is a text. It is what an output is that nobody says a type of, and those of records that were made
	// before there were others.
	OutputString OutputType = "string"
	// OutputInt is a whole number of 64 bits.
	OutputInt OutputType = "int"
	// OutputNumber is a number with or without a fraction.
	OutputNumber OutputType = "number"
	// OutputBool is true or false.
	OutputBool OutputType = "bool"
	// OutputList is a JSON array, OutputObject a JSON object; what is in it shows its type when it is evaluated.
	OutputList   OutputType = "list"
	OutputObject OutputType = "object"
)

// StepItems says how many items of a forEach have succeeded, and which, in a form that does not grow with their number.
type StepItems struct {
	// total number of items.
	Total int32 `json:"total"`
	// succeeded is how many of them have succeeded.
	// +optional
	Succeeded int32 `json:"succeeded,omitempty"`
	// done has the numbers of those, from 1, as ranges, for example 1-40,43.
	// +optional
	Done string `json:"done,omitempty"`
	// digest of the list of items: the step fails when its expression gives another list later.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// StepTarget is the progress of a step at one pod or item.
type StepTarget struct {
	// name of the pod, or the item.
	Name string `json:"name"`
	// number of the item in its list, from 1, where targets does not have all items.
	// +optional
	Number int32 `json:"number,omitempty"`
	// uid of the pod when the step first saw it; empty for an item.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// phase: Pending, Running, Succeeded or Failed.
	Phase OperationPhase `json:"phase"`
	// job is the name of the Job that runs for an item of a container or a script.
	// +optional
	Job string `json:"job,omitempty"`
	// operation is the name of the Operation that runs for an item.
	// +optional
	Operation string `json:"operation,omitempty"`
	// message says why an item failed.
	// +optional
	Message string `json:"message,omitempty"`
	// exitCode is that of the container of an item that failed.
	// +optional
	ExitCode int32 `json:"exitCode,omitempty"`
}

// Operation is one run of a named procedure against a target; also its record.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=zop,categories=zeroinfra
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.targetRef.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="No-Return",type=string,JSONPath=`.status.conditions[?(@.type=="PointOfNoReturn")].reason`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Operation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec OperationSpec `json:"spec"`
	// +optional
	Status OperationStatus `json:"status,omitzero"`
}

// OperationList is a list of Operations.
// +kubebuilder:object:root=true
type OperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Operation `json:"items"`
}
