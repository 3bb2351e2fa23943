// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// Template is the content of a "<Name>.yaml" of the operations part. Expressions in it are CEL over
// parameters, target and steps; texts of steps may hold placeholders over the same.
type Template struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Targets are the components whose pods it can act on; all when empty.
	Targets []string `json:"targets,omitempty"`
	// Topologies that it is for; all when empty. In the others the engine's template of that name is in its place, where
	// there is one.
	Topologies []string `json:"topologies,omitempty"`
	// Parameters that an Operation gives, by name.
	Parameters map[string]Parameter `json:"parameters,omitempty"`
	// Preconditions must hold before anything is touched. They see parameters and target.
	Preconditions []Precondition `json:"preconditions,omitempty"`
	// Preempts says that an Operation of it waits for no other in the queue, and that the one that runs ends for it at its
	// next safe point, as if it were cancelled.
	Preempts bool `json:"preempts,omitempty"`
	// Timeout of a whole run whose Operation says none; that of the engine when empty.
	Timeout Span `json:"timeout,omitempty"`
	// Parallelism is how many steps that run pods or make calls are under way at a time; any number when 0.
	Parallelism int `json:"parallelism,omitempty"`
	// Outputs of an inline template are expressions over parameters and steps, by name. They are evaluated when the run
	// has succeeded.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Artifacts of an inline template are the files that its steps hand on.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	Steps     []Step     `json:"steps"`

	formulas map[formulaKey]*placeholder.Formula
	// outputs of each step with their types.
	outputs map[string]outputTypes
	// lists are those that steps with forEach go through and that are no expressions, by step.
	lists map[string][]string
	// results are the outputs of the template with their types.
	results outputTypes
}

// Precondition must hold before an Operation of the template touches anything.
type Precondition struct {
	// Rule is a CEL expression that gives a bool, without "${" and "}".
	Rule string `json:"rule"`
	// Message says what to do when it does not hold, in one sentence.
	Message string `json:"message"`
}

// Parameter is one that an Operation gives.
type Parameter struct {
	// Description in one line.
	Description string `json:"description,omitempty"`
	// Schema is the CUE constraint of its text, for example =~"^[0-9]+$".
	Schema string `json:"schema"`
	// Default is taken where an Operation gives none; without it the parameter has to be given.
	Default *string `json:"default,omitempty"`
}

// Step is one step of a template. It has exactly one type: agent, engine, wait, operation, approval, job,
// container, script, http, apply, patch or delete.
type Step struct {
	// Name by which other steps and the record call it. In expressions, dashes are underscores.
	Name string `json:"name"`
	// Needs are the steps that have to end before. The step before it in the template when left out; none for [].
	Needs []string `json:"needs,omitempty"`
	// When is an expression: where it gives false, the step is skipped.
	When string `json:"when,omitempty"`
	// ForEach is an expression that gives a list of texts: the step is taken for one after the other, each as the variable
	// each.
	ForEach string `json:"forEach,omitempty"`
	// Parallelism is how many items of a forEach are under way at a time. Default 1.
	Parallelism int `json:"parallelism,omitempty"`
	// Finally has the step taken once all others have ended, also when the run failed or was cancelled. It may need others
	// that are taken finally.
	Finally bool `json:"finally,omitempty"`
	// Retry of the step when it fails; that of the Operation when left out.
	Retry *StepRetry `json:"retry,omitempty"`
	// Timeout from the step's first beginning, all of its attempts together; none but that of the Operation when empty.
	Timeout Span `json:"timeout,omitempty"`
	// OnFailure says what becomes of the run. Default Abort.
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// Compensate are steps that undo this one: they are taken when the run fails or is cancelled once this one was begun,
	// and not otherwise. They stand after it in the template.
	Compensate []string `json:"compensate,omitempty"`
	// Types of outputs of a wait, a job or an action that are no texts, by name. What the value is converted to when it is
	// recorded, and has in the expressions of later steps. One that is left out has the type of its expression, where that
	// shows it, else string.
	Types map[string]platformv1.OutputType `json:"types,omitempty"`
	// Commits makes the beginning of this step the point of no return of the run. It says why there is no way back, and
	// what a person can do instead: from there on nobody can cancel, nothing is undone, and what fails is tried again
	// until the run's time is over.
	Commits string `json:"commits,omitempty"`

	Agent     *AgentStep    `json:"agent,omitempty"`
	Engine    *EngineStep   `json:"engine,omitempty"`
	Wait      *WaitStep     `json:"wait,omitempty"`
	Operation *NestedStep   `json:"operation,omitempty"`
	Approval  *ApprovalStep `json:"approval,omitempty"`
	Job       *JobStep      `json:"job,omitempty"`
	// Container and Script run a pod of their own, for inline templates; a template of a plugin has jobs, which are like
	// its pods.
	Container *ContainerStep `json:"container,omitempty"`
	Script    *ScriptStep    `json:"script,omitempty"`
	// Artifacts are files that the container hands on, and Inputs those of earlier steps that it takes.
	Artifacts []StepArtifact `json:"artifacts,omitempty"`
	Inputs    []StepInput    `json:"inputs,omitempty"`
	HTTP      *HTTPStep      `json:"http,omitempty"`
	// Apply is an object that is applied; it may be made by it.
	Apply *ObjectStep `json:"apply,omitempty"`
	// Patch is merged into an object that is there.
	Patch *ObjectStep `json:"patch,omitempty"`
	// Delete removes an object; one that is absent is done.
	Delete *ObjectStep `json:"delete,omitempty"`
}

// StepRetry says how often a step that failed is tried again.
type StepRetry struct {
	Limit int32 `json:"limit"`
	// Backoff before the first; it grows by Factor with each, up to MaxBackoff. Default 5s.
	Backoff Span `json:"backoff,omitempty"`
	// Factor of the growth. Default 2.
	Factor int32 `json:"factor,omitempty"`
	// MaxBackoff is the most that it grows to. Default 5m, or Backoff where that is longer.
	MaxBackoff Span `json:"maxBackoff,omitempty"`
	// JitterPercent is the largest part of a backoff, in percent, that it is shortened by.
	JitterPercent int32 `json:"jitterPercent,omitempty"`
	// ExitCodes of a container after which it is tried again. All but 0 when left out.
	ExitCodes []int32 `json:"exitCodes,omitempty"`
	// ExceptExitCodes of a container after which it is not tried again. Not together with ExitCodes.
	ExceptExitCodes []int32 `json:"exceptExitCodes,omitempty"`
}

// Span is a time such as 90s or 5m.
type Span string

// Duration of a span that was checked; 0 when it is empty.
func (s Span) Duration() time.Duration {
	d, _ := time.ParseDuration(string(s))
	return d
}

// OnFailure says what becomes of a run when a step fails.
type OnFailure string

// Values of OnFailure.
const (
	// FailureAborts ends the run.
	FailureAborts OnFailure = "Abort"
	// FailureContinues goes on as if the step had succeeded.
	FailureContinues OnFailure = "Continue"
	// FailureDefers goes on, and the run fails at its end.
	FailureDefers OnFailure = "FailAtEnd"
)

// AgentStep calls the process manager or the ops agent of pods of the target, one pod after the other.
type AgentStep struct {
	// Call of the process manager.
	Call AgentCall `json:"call,omitempty"`
	// Signal for the call Signal.
	Signal string `json:"signal,omitempty"`
	// Action of the component, in place of a call. Each component that the step acts on declares it.
	Action string `json:"action,omitempty"`
	// Parameters of the action, with placeholders.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Pods that it acts on. Default All.
	Pods PodChoice `json:"pods,omitempty"`
	// Pod is the name of the one that it acts on, in place of a choice, with placeholders.
	Pod string `json:"pod,omitempty"`
}

// AgentCall names a method of the process manager.
type AgentCall string

// Calls.
const (
	AgentRestart AgentCall = "Restart"
	AgentReload  AgentCall = "Reload"
	AgentStart   AgentCall = "Start"
	AgentStop    AgentCall = "Stop"
	AgentSignal  AgentCall = "Signal"
)

// PodChoice names pods of the target.
type PodChoice string

// Values of PodChoice.
const (
	// PodsAll: each, those that take no writes first.
	PodsAll PodChoice = "All"
	// PodsWriters: those that take writes.
	PodsWriters PodChoice = "Writers"
	// PodsOthers: those that take no writes.
	PodsOthers PodChoice = "Others"
	// PodsOne: the first that is healthy, or the first of all where none is.
	PodsOne PodChoice = "One"
)

// EngineStep has the engine do what it does for an edited spec: the outermost declared object is edited, and the step
// is done when that is Ready again.
type EngineStep struct {
	Do EngineVerb `json:"do"`
	// With are the values that the verb takes, with placeholders; one that is empty is as if it were not there.
	With map[string]string `json:"with,omitempty"`
}

// EngineVerb is what an engine step does.
type EngineVerb string

// Verbs, and what With may hold.
const (
	// EngineStop and EngineStart set running.
	EngineStop  EngineVerb = "Stop"
	EngineStart EngineVerb = "Start"
	// EngineScale sets the number of pods, of sets, or both: replicas, sets, component, set.
	EngineScale EngineVerb = "Scale"
	// EngineResize sets resources: component, cpu, memory, cpuRequest, cpuLimit, memoryRequest, memoryLimit.
	EngineResize EngineVerb = "Resize"
	// EngineExpand sets the size of volumes: component, size.
	EngineExpand EngineVerb = "Expand"
	// EngineUpgrade sets the version of the middleware: version.
	EngineUpgrade EngineVerb = "Upgrade"
	// EngineDowngrade sets the version of the middleware back: version. It is for templates that have put data of that
	// version back before pods are started with it.
	EngineDowngrade EngineVerb = "Downgrade"
	// EngineUpgradePlugin sets the version of the plugin: version.
	EngineUpgradePlugin EngineVerb = "UpgradePlugin"
	// EngineRotate makes generated passwords anew: credential.
	EngineRotate EngineVerb = "RotateCredentials"
	// EngineSwitchover has the pod that takes writes hand over: component, to.
	EngineSwitchover EngineVerb = "Switchover"
	// EngineCreate and EngineDelete make and delete the target itself. They are for templates of the engine only.
	EngineCreate EngineVerb = "Create"
	EngineDelete EngineVerb = "Delete"
	// EngineFailover has another pod take over from the one that takes writes, whatever that says: component, to; with
	// term it only records what the engine did in that term.
	EngineFailover EngineVerb = "Failover"
	// EngineRebuild makes a pod and its volumes anew, which then copies the data of the others: pod.
	EngineRebuild EngineVerb = "Rebuild"
	// EngineApply changes nothing, and waits until the instance is as its spec asks.
	EngineApply EngineVerb = "Apply"
	// EngineBackup makes a Backup and waits until it is whole: repository, method, deletionPolicy, maxCount, maxAge, and
	// the series that it is counted in, as that of a schedule.
	EngineBackup EngineVerb = "Backup"
	// EngineDrill restores a Backup into an instance of its own, verifies that and removes it: backup, repository,
	// schedule.
	EngineDrill EngineVerb = "Drill"
	// EnginePrepareData has the data of a Backup put on volumes beside those that the pods have: backup. EngineSwapData
	// has the pods begin on these, EngineOpenData leads clients there, EngineDropData deletes the volumes of before.
	// EngineReturnData and EngineDiscardData undo what the first two did. They are for templates of the engine only.
	EnginePrepareData EngineVerb = "PrepareData"
	EngineSwapData    EngineVerb = "SwapData"
	EngineOpenData    EngineVerb = "OpenData"
	EngineDropData    EngineVerb = "DropData"
	EngineReturnData  EngineVerb = "ReturnData"
	EngineDiscardData EngineVerb = "DiscardData"
	// EnginePlan says what another spec of the outermost object, the Operation's targetSpec, would bring about. It is for
	// dry runs only.
	EnginePlan EngineVerb = "Plan"
)

// OnPods says whether the verb is about who writes or what a pod has, and not about what is declared.
func (v EngineVerb) OnPods() bool {
	return v == EngineSwitchover || v == EngineFailover || v == EngineRebuild
}

// OnCopies says whether the verb leaves the target as it is, spec and pods: it is about Backups of it.
func (v EngineVerb) OnCopies() bool { return v == EngineBackup || v == EngineDrill }

// OnlyEngine says whether the verb is for templates of the engine alone.
func (v EngineVerb) OnlyEngine() bool {
	switch v {
	case EngineCreate, EngineDelete, EnginePrepareData, EngineSwapData, EngineOpenData, EngineDropData, EngineReturnData,
		EngineDiscardData:
		return true
	}
	return false
}

// EngineValues are the names that With may have, by verb.
var EngineValues = map[EngineVerb][]string{
	EngineStop: nil, EngineStart: nil, EngineApply: nil, EnginePlan: nil, EngineCreate: nil, EngineDelete: nil,
	EngineSwapData: nil, EngineOpenData: nil, EngineDropData: nil, EngineReturnData: nil, EngineDiscardData: nil,
	EnginePrepareData:   {"backup"},
	EngineScale:         {"component", "replicas", "set", "sets"},
	EngineResize:        {"component", "cpu", "cpuLimit", "cpuRequest", "memory", "memoryLimit", "memoryRequest"},
	EngineExpand:        {"component", "size"},
	EngineUpgrade:       {"version"},
	EngineDowngrade:     {"version"},
	EngineUpgradePlugin: {"version"},
	EngineRotate:        {"credential"},
	EngineSwitchover:    {"component", "to"},
	EngineFailover:      {"component", "term", "to"},
	EngineRebuild:       {"pod"},
	EngineBackup:        {"compression", "deletionPolicy", "maxAge", "maxCount", "method", "repository", "series"},
	EngineDrill:         {"backup", "repository", "schedule"},
}

// ObjectReference names an object in the namespace of the target, with placeholders in its name.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// WaitStep waits for an object to be as asked.
type WaitStep struct {
	ObjectReference `json:",inline"`
	// Until is an expression over object, too, which is a map. One that cannot be evaluated, since a field is not there,
	// is not met.
	Until string `json:"until"`
	// Fail is an expression like it: where it gives true, the step fails.
	Fail string `json:"fail,omitempty"`
	// Outputs are expressions like it; each gives what its type says.
	Outputs map[string]string `json:"outputs,omitempty"`
}

// NestedStep runs another template of the same bundle, or one of the engine, on the same target; in an inline template
// it runs another inline one.
type NestedStep struct {
	TemplateRef string `json:"templateRef,omitempty"`
	// Template is an inline template as text, whose outputs are those of the step. It is required in an inline template,
	// in place of templateRef.
	Template string `json:"template,omitempty"`
	// Parameters with placeholders.
	Parameters map[string]string `json:"parameters,omitempty"`

	inline *Template
}

// Inline returns the checked template that the step brings along; nil for none.
func (s *NestedStep) Inline() *Template { return s.inline }

// ApprovalStep waits for somebody to approve.
type ApprovalStep struct {
	// Message says what is to be approved, with placeholders.
	Message string `json:"message"`
	// Count is how many users have to approve. Default 1; more than one is for inline templates, which hold nobody up
	// meanwhile.
	Count int `json:"count,omitempty"`
}

// ObjectStep is an object in the namespace of the target. Texts in its content may hold placeholders.
type ObjectStep struct {
	ObjectReference `json:",inline"`
	// Content is merged with apiVersion, kind and metadata.name; unused by delete.
	Content map[string]any `json:"content,omitempty"`
}
