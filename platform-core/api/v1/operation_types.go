// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperationSpec asks for one run of a named procedure. It is immutable.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of an Operation is immutable: create another Operation"
type OperationSpec struct {
	// templateRef names the procedure, for example Restart: a template of the target's plugin,
	// or plugin@version/Name.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z][-a-z0-9]*@[0-9A-Za-z.-]+/)?[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=128
	TemplateRef string `json:"templateRef"`
	// targetRef names the object to act on, in the same namespace: a typed object, an Application, a Component or a WorkloadSet.
	// +required
	TargetRef TargetReference `json:"targetRef"`
	// parameters of the procedure, checked against its template.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// timeout of the whole run. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ttlSecondsAfterFinished is how long the record is kept after its end; for ever when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

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
)

// OperationTrigger says who caused an Operation.
type OperationTrigger string

// Triggers. An Operation that a person creates has trigger User.
const (
	TriggerUser OperationTrigger = "User"
	// TriggerSchedule: a schedule of the Application came due.
	TriggerSchedule OperationTrigger = "Schedule"
)

// OperationStatus is the record of a run.
type OperationStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase: Pending, Running, Succeeded or Failed.
	// +optional
	Phase OperationPhase `json:"phase,omitempty"`
	// conditions: Ready (True once succeeded), Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// currentStep is the lowest unfinished index of the topologically sorted steps.
	// +optional
	CurrentStep int32 `json:"currentStep"`
	// progress is a short text for printing, for example "1/2 restart".
	// +optional
	Progress string `json:"progress,omitempty"`
	// steps in topological order.
	// +optional
	// +listType=map
	// +listMapKey=name
	Steps []StepStatus `json:"steps,omitempty"`
	// application that the target belongs to.
	// +optional
	Application string `json:"application,omitempty"`
	// startTime is when the first step began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// error says why the run failed and what to do.
	// +optional
	Error string `json:"error,omitempty"`
	// trigger says who caused the run.
	// +optional
	Trigger OperationTrigger `json:"trigger,omitempty"`
}

// StepStatus is the record of one step.
type StepStatus struct {
	// name of the step in the template.
	Name string `json:"name"`
	// phase: Pending, Running, Succeeded or Failed.
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
	// message says what the step is doing or why it failed.
	// +optional
	Message string `json:"message,omitempty"`
	// targets are the pods that the step acts on, in order, each with its progress.
	// +optional
	// +listType=map
	// +listMapKey=name
	Targets []StepTarget `json:"targets,omitempty"`
}

// StepTarget is the progress of a step at one pod.
type StepTarget struct {
	// name of the pod.
	Name string `json:"name"`
	// uid of the pod when the step first saw it.
	UID types.UID `json:"uid"`
	// phase: Pending, Running, Succeeded or Failed.
	Phase OperationPhase `json:"phase"`
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

// GetConditions implements Conditioned.
func (o *Operation) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions implements Conditioned.
func (o *Operation) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// SetObservedGeneration implements Conditioned.
func (o *Operation) SetObservedGeneration(g int64) { o.Status.ObservedGeneration = g }
