// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// CronJobSpec says what runs, when, and what happens when a run cannot begin or fails.
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) || has(self.task.http) || has(self.task.workflow)",message="set serviceAccountName: the pods of the runs are made with the rights of that ServiceAccount, which needs the verb create on jobs of the group batch"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccountName) || !has(self.task.http) || !has(self.task.http.authority) && !(has(self.task.http.headers) && self.task.http.headers.exists(h, has(h.secret)))",message="set serviceAccountName: Secrets and ConfigMaps of a call are read with the rights of that ServiceAccount"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || !has(self.retry.exitCodes) && !has(self.retry.exceptExitCodes) || !has(self.task.http)",fieldPath=".retry",message="exitCodes are those of containers, and a call has none: leave them out"
type CronJobSpec struct {
	// schedules are cron lines of five fields, or of six where the first one has seconds: minute, hour, day of month,
	// month, day of week. H stands for a value that is spread by the name of the CronJob; @hourly, @daily, @weekly,
	// @monthly and @yearly are lines too. A time that several lines name counts once.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Schedules []string `json:"schedules"`
	// timeZone of the schedules by its IANA name, for example Europe/Berlin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone"`
	// clockChange says what becomes of times that the clocks leave out or show twice.
	// +optional
	ClockChange ClockChange `json:"clockChange,omitzero"`
	// jitter delays each run by a time between 0 and this one, which follows from the CronJob and the time of the run. It
	// never reaches the next time.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="jitter must be greater than 0 and at most 24h"
	Jitter *metav1.Duration `json:"jitter,omitempty"`
	// startingDeadline is how long after its time a run may begin. One that could not begin by then is skipped. No limit
	// when left out.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="startingDeadline must be at least 1s"
	StartingDeadline *metav1.Duration `json:"startingDeadline,omitempty"`
	// missedRuns says what becomes of times that passed while the CronJob was suspended or no operator was there.
	// +optional
	MissedRuns MissedRuns `json:"missedRuns,omitzero"`
	// concurrency says what happens when a time comes while a run is under way.
	// +optional
	Concurrency Concurrency `json:"concurrency,omitzero"`
	// suspend begins no run. Runs that are under way go on.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// dependsOn are CronJobs and Workflows that have to succeed before a run begins.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=16
	DependsOn []Dependency `json:"dependsOn,omitempty"`
	// synchronization says what each run has to hold while it is under way. Nothing when left out.
	// +optional
	Synchronization *Synchronization `json:"synchronization,omitempty"`
	// serviceAccountName is the account that makes the pods of the runs and reads the Secrets of calls. Whoever sets it,
	// or changes the task, needs the verb impersonate on it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// task that each run does.
	// +required
	Task Task `json:"task"`
	// retry of a run that failed. Not at all when left out.
	// +optional
	Retry *platformv1.OperationRetry `json:"retry,omitempty"`
	// activeDeadline is how long a run may take, all of its attempts together. Default 1h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="activeDeadline must be at least 1s"
	ActiveDeadline *metav1.Duration `json:"activeDeadline,omitempty"`
	// history says how long runs are kept that have ended.
	// +optional
	History History `json:"history,omitzero"`
}

// ClockChange says what becomes of times that the clocks leave out or show twice.
type ClockChange struct {
	// gap: Shift has a time that the clocks leave out come at the moment they are put forward, Skip leaves it out. Default
	// Shift.
	// +optional
	// +kubebuilder:validation:Enum=Shift;Skip
	// +kubebuilder:default=Shift
	Gap string `json:"gap,omitempty"`
	// overlap: First, Last or Both of the moments at which the clocks show a time. Default First.
	// +optional
	// +kubebuilder:validation:Enum=First;Last;Both
	// +kubebuilder:default=First
	Overlap string `json:"overlap,omitempty"`
}

// MissedRuns says what becomes of times that have passed.
// +kubebuilder:validation:XValidation:rule="has(self.max) == (has(self.policy) && self.policy == 'All')",message="max is required with the policy All, and for no other"
type MissedRuns struct {
	// policy: Skip runs only a time that passed less than 5 minutes ago, Latest runs the last one, All runs the last ones,
	// up to max. Default Skip.
	// +optional
	// +kubebuilder:validation:Enum=Skip;Latest;All
	// +kubebuilder:default=Skip
	Policy string `json:"policy,omitempty"`
	// max is how many times are made up for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max *int32 `json:"max,omitempty"`
}

// Concurrency says what happens when a time comes while a run is under way.
// +kubebuilder:validation:XValidation:rule="has(self.max) == (has(self.policy) && self.policy == 'Queue')",message="max is required with the policy Queue, and for no other"
type Concurrency struct {
	// policy: Allow runs beside it, Forbid skips the time, Replace cancels what is under way and then runs, Queue runs
	// afterwards. Default Forbid.
	// +optional
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace;Queue
	// +kubebuilder:default=Forbid
	Policy string `json:"policy,omitempty"`
	// max is how many times wait at most. Further ones are skipped.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max *int32 `json:"max,omitempty"`
}

// Kinds that a run can depend on.
const (
	DependsOnCronJob  = "CronJob"
	DependsOnWorkflow = "Workflow"
)

// DependencyRun is the value of otherwise that has a run begin all the same.
const DependencyRun = "Run"

// Dependency is a CronJob or a Workflow that has to succeed first.
// +kubebuilder:validation:XValidation:rule="(!has(self.condition) || self.condition == 'SucceededWithin') == has(self.within)",message="within is how long before the time of a run a success may have been: condition SucceededWithin needs it, and the others have none"
type Dependency struct {
	// name of the CronJob or Workflow, in the same namespace. Of a Workflow, those count too that have their tasks from
	// it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind: CronJob or Workflow. Default CronJob.
	// +optional
	// +kubebuilder:validation:Enum=CronJob;Workflow
	// +kubebuilder:default=CronJob
	Kind string `json:"kind,omitempty"`
	// condition that has to hold for a run to begin. SucceededWithin: a run succeeded within a time before that of the
	// schedule. SucceededSameDay: one succeeded on the day of that time, in the time zone of this CronJob, or later.
	// LastRunSucceeded: of the runs that have ended, the last one succeeded. Default SucceededWithin.
	// +optional
	// +kubebuilder:default=SucceededWithin
	Condition DependencyCondition `json:"condition,omitempty"`
	// within is how long before the time of a run its last success may have been. SucceededWithin needs it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="within must be greater than 0"
	Within *metav1.Duration `json:"within,omitempty"`
	// otherwise says what becomes of a time for which the condition does not hold: Skip it, or Run all the same. Default
	// Skip.
	// +optional
	// +kubebuilder:validation:Enum=Skip;Run
	// +kubebuilder:default=Skip
	Otherwise string `json:"otherwise,omitempty"`
	// timeout is how long a run waits for the condition. Default 0s: what otherwise says is done at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="timeout must not be negative"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// DependencyCondition is when a Dependency lets a run begin.
// +kubebuilder:validation:Enum=SucceededWithin;SucceededSameDay;LastRunSucceeded
type DependencyCondition string

// Values of DependencyCondition.
const (
	DependencySucceededWithin  DependencyCondition = "SucceededWithin"
	DependencySucceededSameDay DependencyCondition = "SucceededSameDay"
	DependencyLastRunSucceeded DependencyCondition = "LastRunSucceeded"
)

// History says how long runs are kept that have ended.
type History struct {
	// succeeded is how many runs are kept that succeeded. Default 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=3
	Succeeded *int32 `json:"succeeded,omitempty"`
	// failed is how many runs are kept that failed or were cancelled. Default 3.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=3
	Failed *int32 `json:"failed,omitempty"`
	// maxAge is how long after its end a run is kept at most. No limit when left out.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s')",message="maxAge must be greater than 0"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`
}

// CronJobStatus is what has come of a CronJob.
type CronJobStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (runs begin at their times), Reconciling and Stalled; LastRunSucceeded; RunBlocked;
	// DependencyInvalid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// settledTime is up to when times are decided on: each has a run, waits for one, or was skipped.
	// +optional
	SettledTime *metav1.Time `json:"settledTime,omitempty"`
	// schedule that settledTime is about.
	// +optional
	Schedule string `json:"schedule,omitempty"`
	// suspended says that the spec was suspended when it was last looked at.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
	// nextTimes are the next three times; none while suspended.
	// +optional
	// +listType=atomic
	NextTimes []metav1.Time `json:"nextTimes,omitempty"`
	// waiting are times whose run waits for another run or for a dependency.
	// +optional
	// +listType=atomic
	Waiting []metav1.Time `json:"waiting,omitempty"`
	// waitingFor says what the first of these times waits for.
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`
	// active are the runs that are under way.
	// +optional
	// +listType=map
	// +listMapKey=operation
	Active []ActiveRun `json:"active,omitempty"`
	// lastTime is the latest time that a run was made for.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// lastSuccessTime is when a run last ended well.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`
	// lastFailure is the last run that failed.
	// +optional
	LastFailure *RunFailure `json:"lastFailure,omitempty"`
	// counts of all runs so far.
	// +optional
	Counts RunCounts `json:"counts,omitzero"`
	// message tells of the last time that was skipped, and why.
	// +optional
	Message string `json:"message,omitempty"`
	// lastManualRun is the value of the annotation batch.zeroinfra.github.com/run that the last manual run was made for.
	// +optional
	LastManualRun string `json:"lastManualRun,omitempty"`
}

// ActiveRun is a run that is under way.
type ActiveRun struct {
	// operation is the name of the Operation.
	Operation string `json:"operation"`
	// time of the schedule that it runs for.
	Time metav1.Time `json:"time"`
	// message says for which mutex or semaphore it waits, or what keeps its pod from starting.
	// +optional
	Message string `json:"message,omitempty"`
}

// RunFailure is a run that failed.
type RunFailure struct {
	// operation is the name of the Operation.
	Operation string `json:"operation"`
	// time at which it failed.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// reason why it failed.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// RunCounts are numbers of runs.
type RunCounts struct {
	// started is how many runs were made.
	// +optional
	Started int64 `json:"started,omitempty"`
	// succeeded is how many ended well.
	// +optional
	Succeeded int64 `json:"succeeded,omitempty"`
	// failed is how many failed or were cancelled.
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// skipped is how many times had no run: since another one was under way, a dependency had not succeeded, or they were
	// missed.
	// +optional
	Skipped int64 `json:"skipped,omitempty"`
}

// CronJob runs a task at set times. Each run is an Operation.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=cronjobs,shortName=zcron,categories=zeroinfra
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedules[0]`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.timeZone`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="RunBlocked")].reason`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastTime`
// +kubebuilder:printcolumn:name="Succeeded",type=integer,JSONPath=`.status.counts.succeeded`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.counts.failed`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextTimes[0]`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name || has(d.kind) && d.kind == 'Workflow')",message="a CronJob cannot depend on itself"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="the name of a CronJob has at most 40 characters: names of its runs and pods begin with it"
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CronJobSpec `json:"spec"`
	// +optional
	Status CronJobStatus `json:"status,omitzero"`
}

// StatusGuarded says that the status is written only on what was read last: it counts.
func (*CronJob) StatusGuarded() bool { return true }

// CronJobList is a list of CronJobs.
// +kubebuilder:object:root=true
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronJob `json:"items"`
}

const (
	// CronJobLabel names the CronJob that an Operation is a run of.
	CronJobLabel = "batch.zeroinfra.github.com/cronjob"
	// RunAnnotation of a CronJob asks for a run now: each new value for one.
	RunAnnotation = "batch.zeroinfra.github.com/run"
	// LastRunSucceededCondition: True when the last run of a CronJob succeeded, False when it did not; absent
	// before the first one has ended. Read the Operation that the message names when it is False.
	// Kinds: CronJob.
	LastRunSucceededCondition = "LastRunSucceeded"
	// RunBlockedCondition: True while something keeps the pod of a run of a CronJob from starting, such as an image,
	// a node, a Secret or a quota; absent otherwise. The run goes on once that is there, and fails at its
	// activeDeadline. Do what the message says.
	// Kinds: CronJob.
	RunBlockedCondition = "RunBlocked"
	// DependencyInvalidCondition: True while dependsOn of a CronJob names a CronJob or a Workflow that does not exist,
	// or CronJobs depend on each other in a cycle; absent otherwise. What the dependency asks for does not hold while it
	// does not exist. Do what the message says.
	// Kinds: CronJob.
	DependencyInvalidCondition = "DependencyInvalid"
)

// Reasons of dependencies. CronJob has them.
const (
	// ReasonDependencyCycle: CronJobs depend on each other in a cycle, so that each waits for a success of the others.
	// What runs goes on. Take one of the dependencies out that the message names.
	ReasonDependencyCycle = "DependencyCycle"
)
