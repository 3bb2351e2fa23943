// SPDX-License-Identifier: Apache-2.0

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CronLine says when something comes again: minute, hour, day of month, month and day of week, as cron has them.
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:XValidation:rule=`self.matches('^([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?(,([*]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]*)?)* ([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?(,([*]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]*)?)* ([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?(,([*]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]*)?)* ([*]|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?(,([*]|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?)* ([*]|([0-6]|[A-Za-z]{3})(-([0-6]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?(,([*]|([0-6]|[A-Za-z]{3})(-([0-6]|[A-Za-z]{3}))?)(/[1-9][0-9]*)?)*$')`,message="schedule must be a cron line of five fields: minute, hour, day of month, month, day of week"
type CronLine string

// TimeZone is the IANA name of a time zone.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="timeZone must be the name of a time zone, such as Europe/Berlin or UTC"
type TimeZone string

// Schedule runs an Operation on an instance again and again.
// +kubebuilder:validation:XValidation:rule="self.missedRuns != 'All' || self.concurrency == 'Queue'",message="missedRuns All needs concurrency Queue, since the runs that are made up for follow each other"
// +kubebuilder:validation:XValidation:rule="!has(self.missedLimit) || self.missedRuns == 'All'",message="missedLimit is for missedRuns All only: remove it"
type Schedule struct {
	// name of the schedule, part of the names of its Operations: "<application>.<name>.<yyyymmdd-hhmm>", the time in UTC.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=24
	Name string `json:"name"`
	// schedule is when it runs, as a cron line of five fields, for example "0 20 * * 1-5". A time that the clocks of the
	// zone leave out comes when they are put forward; of one that they show twice, the first counts.
	// +required
	Schedule CronLine `json:"schedule"`
	// timeZone of the schedule by its IANA name, for example Europe/Berlin.
	// +required
	TimeZone TimeZone `json:"timeZone"`
	// operation that is made each time, with this instance as its target.
	// +required
	Operation ScheduledOperation `json:"operation"`
	// missedRuns says what becomes of times at which no operator was there, by more than 5 minutes. Default Skip.
	// +optional
	// +kubebuilder:default=Skip
	MissedRuns MissedRuns `json:"missedRuns,omitempty"`
	// missedLimit is how many missed times All makes up for at most, the latest ones. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MissedLimit *int32 `json:"missedLimit,omitempty"`
	// concurrency says what happens when an earlier Operation of this schedule has not ended. Default Skip.
	// +optional
	// +kubebuilder:default=Skip
	Concurrency ScheduleConcurrency `json:"concurrency,omitempty"`
	// suspend lets the times pass. They are not made up for afterwards.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ScheduledOperation is what an Operation of a schedule asks for, as in the spec of an Operation.
type ScheduledOperation struct {
	// templateRef names the procedure, for example Restart.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z][-a-z0-9]*@[0-9A-Za-z.-]+/)?[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:MaxLength=128
	TemplateRef string `json:"templateRef"`
	// parameters of the procedure, checked against its template.
	// +optional
	Parameters Parameters `json:"parameters,omitempty"`
	// timeout of the whole run. That of the template when left out, and 10m where that has none.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// ttlSecondsAfterFinished is how long the record of a run is kept after its end; for ever when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// retry of the steps whose template says nothing about that. Not at all when left out.
	// +optional
	Retry *OperationRetry `json:"retry,omitempty"`
	// force has fields of the target changed that a GitOps manager owns. Its next synchronisation reverts them.
	// +optional
	Force bool `json:"force,omitempty"`
}

// MissedRuns says what becomes of times at which no operator was there.
// +kubebuilder:validation:Enum=Skip;Latest;All
type MissedRuns string

// Values of MissedRuns.
const (
	// MissedSkip lets them pass.
	MissedSkip MissedRuns = "Skip"
	// MissedLatest makes up for the latest of them.
	MissedLatest MissedRuns = "Latest"
	// MissedAll makes up for all of them, up to a limit, one after the other.
	MissedAll MissedRuns = "All"
)

// ScheduleConcurrency says what happens when an earlier Operation of a schedule has not ended.
// +kubebuilder:validation:Enum=Skip;Queue
type ScheduleConcurrency string

// Values of ScheduleConcurrency.
const (
	// ConcurrencySkip lets the time pass.
	ConcurrencySkip ScheduleConcurrency = "Skip"
	// ConcurrencyQueue makes the Operation, and it waits for its turn.
	ConcurrencyQueue ScheduleConcurrency = "Queue"
)

// ScheduleStatus is what is known of a schedule.
type ScheduleStatus struct {
	// name of the schedule.
	Name string `json:"name"`
	// nextTime is when it runs next, a maintenance window that it waits for included; absent while it is suspended,
	// refused or not possible.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// lastTime is the time of the schedule that an Operation was last made for.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// lastOperation is the name of that Operation.
	// +optional
	LastOperation string `json:"lastOperation,omitempty"`
	// message says why a time was passed over since then, or why all are.
	// +optional
	Message string `json:"message,omitempty"`
	// reason is NotPossible while all times pass, since this instance does not have what its template takes; absent
	// otherwise.
	// +optional
	Reason string `json:"reason,omitempty"`
}
