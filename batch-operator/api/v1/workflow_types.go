// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// WorkflowSpec says which tasks run, in which order. A Workflow is one run: but for suspend, stop and
// ttlSecondsAfterFinished its spec is immutable, unless it is a template.
// +kubebuilder:validation:XValidation:rule="has(self.templateFrom) != has(self.tasks)",message="set one of tasks and templateFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.templateFrom) || !has(self.parameters) && !has(self.onExit)",message="parameters and onExit are those of the template: leave them out with templateFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.templateFrom) || !has(self.outputs)",message="outputs are those of the template: leave them out with templateFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.templateFrom) || !has(self.artifacts)",message="artifacts are those of the template: leave them out with templateFrom"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) && self.templateOnly || has(self.artifacts) == has(oldSelf.artifacts) && (!has(self.artifacts) || self.artifacts == oldSelf.artifacts)",message="artifacts are immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="!has(self.templateOnly) || !self.templateOnly || ![has(self.templateFrom), has(self.arguments), has(self.parallelism), has(self.activeDeadline), has(self.author), has(self.synchronization), has(self.suspend), has(self.stop), has(self.terminate), has(self.ttlSecondsAfterFinished)].exists(x, x)",message="a template has tasks, onExit, parameters, outputs, artifacts and serviceAccountName alone: leave out all else, which is for the Workflows that run it"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) == has(oldSelf.templateOnly) && (!has(self.templateOnly) || self.templateOnly == oldSelf.templateOnly)",message="templateOnly is immutable"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) && self.templateOnly || has(self.tasks) == has(oldSelf.tasks) && (!has(self.tasks) || self.tasks == oldSelf.tasks) && has(self.onExit) == has(oldSelf.onExit) && (!has(self.onExit) || self.onExit == oldSelf.onExit)",message="tasks and onExit are immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) && self.templateOnly || has(self.outputs) == has(oldSelf.outputs) && (!has(self.outputs) || self.outputs == oldSelf.outputs)",message="outputs are immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) && self.templateOnly || has(self.templateFrom) == has(oldSelf.templateFrom) && (!has(self.templateFrom) || self.templateFrom == oldSelf.templateFrom) && has(self.parameters) == has(oldSelf.parameters) && (!has(self.parameters) || self.parameters == oldSelf.parameters) && has(self.arguments) == has(oldSelf.arguments) && (!has(self.arguments) || self.arguments == oldSelf.arguments) && has(self.parallelism) == has(oldSelf.parallelism) && (!has(self.parallelism) || self.parallelism == oldSelf.parallelism) && has(self.activeDeadline) == has(oldSelf.activeDeadline) && (!has(self.activeDeadline) || duration(self.activeDeadline) == duration(oldSelf.activeDeadline))",message="templateFrom, parameters, arguments, parallelism and activeDeadline are immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="has(self.author) == has(oldSelf.author) && (!has(self.author) || self.author == oldSelf.author) && has(self.serviceAccountName) == has(oldSelf.serviceAccountName) && (!has(self.serviceAccountName) || self.serviceAccountName == oldSelf.serviceAccountName)",message="author and serviceAccountName are immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="has(self.synchronization) == has(oldSelf.synchronization) && (!has(self.synchronization) || self.synchronization == oldSelf.synchronization)",message="synchronization is immutable: create another Workflow"
// +kubebuilder:validation:XValidation:rule="!has(self.tasks) || self.tasks.all(t, !has(t.dependsOn) || t.dependsOn.all(d, self.tasks.exists(o, o.name == d.name)))",fieldPath=".tasks",message="dependsOn names a task that does not exist"
// +kubebuilder:validation:XValidation:rule="!has(self.tasks) || self.tasks.filter(t, has(t.approval)).size() <= 1",fieldPath=".tasks",message="a Workflow has one approval at most"
// +kubebuilder:validation:XValidation:rule="!has(self.tasks) || !has(self.onExit) || self.onExit.all(e, self.tasks.all(t, t.name != e.name))",fieldPath=".onExit",message="tasks and onExit have a name in common"
// +kubebuilder:validation:XValidation:rule="has(self.templateOnly) && self.templateOnly || has(self.author) || !has(self.tasks) || self.tasks.all(t, !has(t.approval))",message="an approval needs spec.author, so that somebody else approves: write your user name, as kubectl auth whoami says it"
type WorkflowSpec struct {
	// templateOnly says that this Workflow does not run: others name it in templateFrom.
	// +optional
	TemplateOnly bool `json:"templateOnly,omitempty"`
	// templateFrom names a Workflow in the same namespace whose tasks, onExit and parameters this one has.
	// +optional
	TemplateFrom *WorkflowTemplate `json:"templateFrom,omitempty"`
	// parameters that expressions read as parameters.NAME.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Parameters []WorkflowParameter `json:"parameters,omitempty"`
	// arguments are the values of parameters, by name.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	Arguments map[string]Argument `json:"arguments,omitempty"`
	// tasks run as soon as what they depend on has ended.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=80
	Tasks []WorkflowTask `json:"tasks,omitempty"`
	// onExit tasks run once all others have ended, however the run ends.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	OnExit []ExitTask `json:"onExit,omitempty"`
	// outputs are expressions over parameters and tasks, by name. They are computed when the run has succeeded:
	// status.outputs has them, and so has the task of another Workflow that runs this one.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z][A-Za-z0-9]{0,39}$'))",message="the name of an output is a small letter, and letters and digits after it"
	Outputs map[string]OutputExpression `json:"outputs,omitempty"`
	// artifacts says where the files are kept that tasks hand on. Required where a task has artifacts.
	// +optional
	Artifacts *WorkflowArtifacts `json:"artifacts,omitempty"`
	// parallelism is how many container, script and http tasks are under way at a time. No limit when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Parallelism *int32 `json:"parallelism,omitempty"`
	// activeDeadline is how long the run may take, its pauses included, but not the time that it only waits for an
	// approval, nor onExit. Default 24h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="activeDeadline must be at least 1s"
	ActiveDeadline *metav1.Duration `json:"activeDeadline,omitempty"`
	// author is the user who creates this Workflow, as the API server knows him. Required for an approval.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Author string `json:"author,omitempty"`
	// serviceAccountName is the account that creates the pods of tasks, acts on objects and reads the Secrets of calls.
	// Whoever sets it needs the verb impersonate on it. Of a template it is the account of the CronJobs that run it, and
	// whoever changes the template needs that verb too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// synchronization says what the run has to hold while it is under way. Nothing when left out.
	// +optional
	Synchronization *Synchronization `json:"synchronization,omitempty"`
	// suspend begins no task and no attempt. What is under way goes on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// stop ends the run: pods are deleted, no task begins but onExit. It wins over an approval that is waited for.
	// +optional
	Stop bool `json:"stop,omitempty"`
	// terminate ends the run at once: its Operation is deleted, and with it the pods and their logs. Nothing else runs,
	// not even onExit. It wins over stop. What the tasks came to stays in the status.
	// +optional
	Terminate bool `json:"terminate,omitempty"`
	// ttlSecondsAfterFinished is how long after its end the Workflow is deleted, with its record and the logs. Not at all
	// when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// WorkflowTemplate names a Workflow.
type WorkflowTemplate struct {
	// name of the Workflow, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Argument is the value of a parameter.
// +kubebuilder:validation:MaxLength=4096
type Argument string

// WorkflowParameter is a value that whoever runs the Workflow sets.
// +kubebuilder:validation:XValidation:rule="!has(self.pattern) || !has(self.type) || self.type == 'string'",message="pattern is for a parameter of type string"
type WorkflowParameter struct {
	// name in expressions.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z][a-zA-Z0-9]*$`
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// description in one line.
	// +optional
	// +kubebuilder:validation:Pattern=`^[^\n]+$`
	// +kubebuilder:validation:MaxLength=256
	Description string `json:"description,omitempty"`
	// type of the value. In expressions it is a text all the same: convert it with int, double or ==. Default string.
	// +optional
	// +kubebuilder:validation:Enum=string;int;number;bool
	// +kubebuilder:default=string
	Type string `json:"type,omitempty"`
	// pattern is a regular expression that the value has to match as a whole.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Pattern string `json:"pattern,omitempty"`
	// default is the value where there is no argument. Without it the argument is required.
	// +optional
	Default *Argument `json:"default,omitempty"`
}

// WorkflowTask is one task: exactly one of container, script, http, workflow, approval, wait, apply and delete.
// Placeholders in texts and the expressions of when and forEach are CEL over parameters and tasks, which has phase and
// outputs of each task that this one depends on. In names of tasks, dashes are underscores there.
// +kubebuilder:validation:XValidation:rule="[has(self.container), has(self.script), has(self.http), has(self.workflow), has(self.approval), has(self.wait), has(self.apply), has(self.delete)].filter(x, x).size() == 1",message="set exactly one of container, script, http, workflow, approval, wait, apply and delete"
// +kubebuilder:validation:XValidation:rule="!has(self.dependsOn) || self.dependsOn.all(d, d.name != self.name)",message="a task cannot depend on itself"
// +kubebuilder:validation:XValidation:rule="!has(self.forEach) || !has(self.approval)",message="an approval is given once: leave out forEach"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || !has(self.approval)",message="an approval is given once: leave out retry"
// +kubebuilder:validation:XValidation:rule="!has(self.forEach) || !(has(self.container) && has(self.container.outputs) || has(self.script) && has(self.script.outputs) || has(self.http) && has(self.http.outputs) || has(self.wait) && has(self.wait.outputs))",message="outputs are those of one item: leave them out with forEach"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || !has(self.retry.exitCodes) && !has(self.retry.exceptExitCodes) || has(self.container) || has(self.script)",fieldPath=".retry",message="exitCodes are those of containers, and only a container and a script have one: leave them out"
type WorkflowTask struct {
	// name of the task.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// dependsOn are tasks that have to end before. None when left out.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=40
	DependsOn []TaskDependency `json:"dependsOn,omitempty"`
	// when is an expression: where it gives false, the task is skipped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	When string `json:"when,omitempty"`
	// forEach runs the task once for each item of a list, which texts have as each.
	// +optional
	ForEach *ForEach `json:"forEach,omitempty"`
	// retry of the task when it fails. Not at all when left out.
	// +optional
	Retry *platformv1.OperationRetry `json:"retry,omitempty"`
	// timeout from the first beginning of the task, all of its attempts together. None but activeDeadline when left out.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="timeout must be at least 1s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// onFailure: Fail has the Workflow fail at its end, Continue does not. Either way other tasks go on. Default Fail.
	// +optional
	// +kubebuilder:validation:Enum=Fail;Continue
	// +kubebuilder:default=Fail
	OnFailure string `json:"onFailure,omitempty"`
	// container runs an image in a pod.
	// +optional
	Container *ContainerTask `json:"container,omitempty"`
	// script runs a program that is written here in a pod.
	// +optional
	Script *ScriptTask `json:"script,omitempty"`
	// artifacts are files of the container that this task hands on to others.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// inputs are artifacts of earlier tasks. They are verified by their digests before the container starts.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Inputs []ArtifactInput `json:"inputs,omitempty"`
	// http makes a call.
	// +optional
	HTTP *HTTPTask `json:"http,omitempty"`
	// workflow runs the tasks of another Workflow.
	// +optional
	Workflow *NestedRun `json:"workflow,omitempty"`
	// approval waits for somebody else than the author to approve, or for several.
	// +optional
	Approval *ApprovalTask `json:"approval,omitempty"`
	// wait waits for an object.
	// +optional
	Wait *WaitTask `json:"wait,omitempty"`
	// apply applies an object by server-side apply.
	// +optional
	Apply *ApplyTask `json:"apply,omitempty"`
	// delete deletes an object. One that does not exist is a success.
	// +optional
	Delete *ObjectReference `json:"delete,omitempty"`
}

// ExitTask runs once all tasks have ended, however: exactly one of container, script, http, apply and delete.
// +kubebuilder:validation:XValidation:rule="[has(self.container), has(self.script), has(self.http), has(self.apply), has(self.delete)].filter(x, x).size() == 1",message="set exactly one of container, script, http, apply and delete"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || !has(self.retry.exitCodes) && !has(self.retry.exceptExitCodes) || has(self.container) || has(self.script)",fieldPath=".retry",message="exitCodes are those of containers, and only a container and a script have one: leave them out"
type ExitTask struct {
	// name of the task.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// after says after which runs: Always, Succeeded, or Failed, which is also one that was stopped or took too long.
	// Default Always.
	// +optional
	// +kubebuilder:validation:Enum=Always;Succeeded;Failed
	// +kubebuilder:default=Always
	After string `json:"after,omitempty"`
	// when is an expression: where it gives false, the task is skipped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	When string `json:"when,omitempty"`
	// retry of the task when it fails. Not at all when left out.
	// +optional
	Retry *platformv1.OperationRetry `json:"retry,omitempty"`
	// timeout of the task, all of its attempts together. Default 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="timeout must be at least 1s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// container runs an image in a pod.
	// +optional
	Container *ContainerTask `json:"container,omitempty"`
	// script runs a program that is written here in a pod.
	// +optional
	Script *ScriptTask `json:"script,omitempty"`
	// http makes a call.
	// +optional
	HTTP *HTTPTask `json:"http,omitempty"`
	// apply applies an object by server-side apply.
	// +optional
	Apply *ApplyTask `json:"apply,omitempty"`
	// delete deletes an object. One that does not exist is a success.
	// +optional
	Delete *ObjectReference `json:"delete,omitempty"`
}

// ApprovalTask waits for a person. Who may approve is said by the verb approve on the Operation of the run.
type ApprovalTask struct {
	// reason says what is to be approved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// approvals is how many users have to approve, each other than the author. One who rejects is enough. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=1
	Approvals int32 `json:"approvals,omitempty"`
}

// ObjectReference names an object in the same namespace.
type ObjectReference struct {
	// apiVersion of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// WaitTask waits for an object to exist and to be as asked.
// +kubebuilder:validation:XValidation:rule="has(self.condition) != has(self.until)",message="set one of condition and until"
type WaitTask struct {
	ObjectReference `json:",inline"`
	// condition is the type of a condition in the status of the object that has to be True.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9./_-]*$`
	// +kubebuilder:validation:MaxLength=128
	Condition string `json:"condition,omitempty"`
	// until is an expression over object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Until string `json:"until,omitempty"`
	// fail is an expression over object: where it gives true, the task fails.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Fail string `json:"fail,omitempty"`
	// outputs are expressions over object.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Outputs map[string]string `json:"outputs,omitempty"`
}

// ApplyTask applies an object.
type ApplyTask struct {
	// manifest of the object in YAML, in the same namespace. Its texts may have placeholders.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Manifest string `json:"manifest"`
}

// WorkflowPhase is where a Workflow is.
type WorkflowPhase string

// Phases.
const (
	WorkflowPending          WorkflowPhase = "Pending"
	WorkflowRunning          WorkflowPhase = "Running"
	WorkflowSuspended        WorkflowPhase = "Suspended"
	WorkflowAwaitingApproval WorkflowPhase = "AwaitingApproval"
	WorkflowStopping         WorkflowPhase = "Stopping"
	WorkflowSucceeded        WorkflowPhase = "Succeeded"
	WorkflowFailed           WorkflowPhase = "Failed"
	WorkflowStopped          WorkflowPhase = "Stopped"
	// WorkflowIsTemplate is the phase of one that does not run.
	WorkflowIsTemplate WorkflowPhase = "Template"
)

// WorkflowStatus is how far a run is.
type WorkflowStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (the run succeeded), Reconciling and Stalled; Succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase: Pending, Running, Suspended, AwaitingApproval, Stopping, Succeeded, Failed, Stopped or Template.
	// +optional
	Phase WorkflowPhase `json:"phase,omitempty"`
	// progress is how many of the tasks have ended, for example 3/7.
	// +optional
	Progress string `json:"progress,omitempty"`
	// message says what is waited for, or why the run failed.
	// +optional
	Message string `json:"message,omitempty"`
	// attempt is the number of the run, from 1. Each retry has another one.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// operation is the name of the Operation of this attempt.
	// +optional
	Operation string `json:"operation,omitempty"`
	// operationUID is the UID of that Operation.
	// +optional
	OperationUID types.UID `json:"operationUID,omitempty"`
	// lastRetry is the value of the annotation batch.zeroinfra.github.com/retry that the last retry was made for.
	// +optional
	LastRetry string `json:"lastRetry,omitempty"`
	// startTime is when this attempt began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when it ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// outputs of the run, once it has succeeded. One that is no string is kept as its JSON text.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
	// tasks in the order of the spec, then those of onExit.
	// +optional
	// +listType=map
	// +listMapKey=name
	Tasks []TaskStatus `json:"tasks,omitempty"`
}

// TaskStatus is how far a task is.
type TaskStatus struct {
	// name of the task.
	Name string `json:"name"`
	// phase: Pending, Running, Succeeded, Failed, Skipped or Cancelled.
	Phase platformv1.OperationPhase `json:"phase"`
	// message says what is waited for, or why the task failed.
	// +optional
	Message string `json:"message,omitempty"`
	// attempts is how often the task was begun.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// items of a forEach that succeeded, of all, for example 12/200.
	// +optional
	Items string `json:"items,omitempty"`
	// job is the name of the Job of the last attempt: kubectl logs job/NAME.
	// +optional
	Job string `json:"job,omitempty"`
	// operation is the name of the Operation of the last attempt of a task of type workflow.
	// +optional
	Operation string `json:"operation,omitempty"`
	// artifacts that the task has handed on: name, digest, size and location of each.
	// +optional
	// +listType=map
	// +listMapKey=name
	Artifacts []platformv1.StepArtifact `json:"artifacts,omitempty"`
	// startTime is when the task began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the task ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// Workflow runs tasks in the order of what they depend on. Each attempt is an Operation.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=workflows,shortName=zwf,categories=zeroinfra
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.tasks) || self.spec.tasks.all(t, !has(t.workflow) || t.workflow.templateFrom.name != self.metadata.name)",message="a task cannot run the Workflow that it is part of"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="the name of a Workflow has at most 40 characters: names of its Operations and pods begin with it"
type Workflow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec WorkflowSpec `json:"spec"`
	// +optional
	Status WorkflowStatus `json:"status,omitzero"`
}

// WorkflowList is a list of Workflows.
// +kubebuilder:object:root=true
type WorkflowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workflow `json:"items"`
}

const (
	// WorkflowLabel names the Workflow that an Operation is an attempt of.
	WorkflowLabel = "batch.zeroinfra.github.com/workflow"
	// RetryAnnotation of a Workflow that failed or was stopped has it go on with the tasks that did not succeed: each new
	// value once.
	RetryAnnotation = "batch.zeroinfra.github.com/retry"
	// SucceededCondition: True when the run succeeded, False when it failed or was stopped, Unknown until it has
	// ended. Read the message when it is False, and annotate the Workflow to have it tried again.
	// Kinds: Workflow.
	SucceededCondition = "Succeeded"
)
