// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// DefaultTimeout is the timeout of a run whose spec gives none.
const DefaultTimeout = 10 * time.Minute

// Reasons of an Operation's conditions, beside those of the core API.
const (
	// ReasonQueued: another Operation of the same Application runs.
	ReasonQueued = "Queued"
	// ReasonStepFailed: a step failed.
	ReasonStepFailed = "StepFailed"
	// ReasonTimedOut: the run did not end in time.
	ReasonTimedOut = "TimedOut"
	// ReasonAgentUnreachable: the process manager of a pod does not answer; the call is made again.
	ReasonAgentUnreachable = "AgentUnreachable"
)

// waitingFor begins the message of a step that is under way.
const waitingFor = "waiting for "

// Decision is how an Operation goes on.
type Decision struct {
	// Status to record, conditions aside.
	Status platformv1.OperationStatus
	// Outcome to report in the conditions; its clock is when to look again without any event.
	Outcome outcome.Outcome
	// Call to make once Status is written; nil for none. When Status is the same as recorded, nothing
	// needs to be written before the call: the next decision follows it in the same turn.
	Call *Call
}

// Finished says whether a run has ended. A finished Operation never changes again.
func Finished(op *platformv1.Operation) bool {
	return op.Status.Phase == platformv1.OperationSucceeded || op.Status.Phase == platformv1.OperationFailed
}

// Expiry returns when a finished Operation is to be deleted; false when it is kept.
func Expiry(op *platformv1.Operation) (time.Time, bool) {
	if !Finished(op) || op.Spec.TTLSecondsAfterFinished == nil || op.Status.CompletionTime == nil {
		return time.Time{}, false
	}
	return op.Status.CompletionTime.Add(time.Duration(*op.Spec.TTLSecondsAfterFinished) * time.Second), true
}

// Fail ends an Operation.
func Fail(op *platformv1.Operation, refusal *Refusal, now time.Time) Decision {
	status := op.Status.DeepCopy()
	if status.Trigger == "" {
		status.Trigger = TriggerOf(op)
	}
	failStatus(status, refusal.Message, now)
	return Decision{Status: *status, Outcome: outcome.Stalled(refusal.Reason, refusal.Message)}
}

// Wait leaves an Operation that has not started pending, with the reason why.
func Wait(op *platformv1.Operation, application string, o outcome.Outcome) Decision {
	status := op.Status.DeepCopy()
	status.Phase, status.Application, status.Trigger = platformv1.OperationPending, application, TriggerOf(op)
	status.Progress = "waiting"
	return Decision{Status: *status, Outcome: o}
}

// Start begins the run of an Operation, and decides on its first step at once.
func Start(op *platformv1.Operation, application string, facts Facts) Decision {
	begun := op.DeepCopy()
	status := &begun.Status
	at := metav1.NewTime(facts.Now)
	status.Phase, status.Application, status.Trigger, status.StartTime = platformv1.OperationRunning, application, TriggerOf(op), &at
	for _, step := range facts.Template.Steps {
		status.Steps = append(status.Steps, platformv1.StepStatus{Name: step.Name, Phase: platformv1.OperationPending})
	}
	return Next(begun, facts)
}

// Next decides how a running Operation goes on.
func Next(op *platformv1.Operation, facts Facts) Decision {
	r := &run{op: op, facts: facts, status: op.Status.DeepCopy()}
	verdict := r.advance()
	deadline := r.deadline()
	switch {
	case verdict.failed != "":
		return r.fail(ReasonStepFailed, verdict.failed)
	case verdict.waiting == "":
		return r.succeed()
	case !facts.Now.Before(deadline):
		return r.fail(ReasonTimedOut, fmt.Sprintf("not done within %s: step %q waited for %s",
			deadline.Sub(r.status.StartTime.Time), r.step().Name, verdict.waiting))
	}
	after := deadline.Sub(facts.Now)
	reason := platformv1.ReasonProgressing
	if verdict.retry > 0 {
		after, reason = min(after, verdict.retry), ReasonAgentUnreachable
	}
	r.step().Message = waitingFor + verdict.waiting
	r.status.Progress = r.progress()
	message := fmt.Sprintf("step %q: %s", r.step().Name, r.step().Message)
	return Decision{Status: *r.status, Outcome: outcome.WaitingFor(after, reason, message), Call: verdict.call}
}

// run is one Operation on its way through its steps.
type run struct {
	op     *platformv1.Operation
	facts  Facts
	status *platformv1.OperationStatus
}

// verdict is what a step, or a pod within it, says. The zero verdict is done.
type verdict struct {
	// waiting names what is waited for.
	waiting string
	// failed says why the Operation fails.
	failed string
	// retry is when to look again although nothing happened; 0 for never.
	retry time.Duration
	// call to make.
	call *Call
}

// advance goes through the steps until one is not done.
func (r *run) advance() verdict {
	for int(r.status.CurrentStep) < len(r.status.Steps) {
		step := r.step()
		kind := r.kind(step.Name)
		if kind == nil {
			return verdict{failed: fmt.Sprintf("step %q is no longer part of template %q", step.Name, r.facts.Template.Name)}
		}
		if v := kind.advance(r, step); v.waiting != "" || v.failed != "" {
			return v
		}
		at := metav1.NewTime(r.facts.Now)
		step.Phase, step.CompletionTime, step.Message = platformv1.OperationSucceeded, &at, ""
		r.status.CurrentStep++
	}
	return verdict{}
}

func (r *run) step() *platformv1.StepStatus { return &r.status.Steps[r.status.CurrentStep] }

func (r *run) kind(name string) stepKind {
	for _, step := range r.facts.Template.Steps {
		if step.Name == name {
			return kindOf(step)
		}
	}
	return nil
}

// begin records that a step was begun.
func (r *run) begin(step *platformv1.StepStatus) {
	at := metav1.NewTime(r.facts.Now)
	step.Phase, step.StartTime = platformv1.OperationRunning, &at
	step.Attempts++
}

func (r *run) deadline() time.Time {
	timeout := DefaultTimeout
	if r.op.Spec.Timeout != nil {
		timeout = r.op.Spec.Timeout.Duration
	}
	return r.status.StartTime.Add(timeout)
}

func (r *run) succeed() Decision {
	at := metav1.NewTime(r.facts.Now)
	r.status.Phase, r.status.CompletionTime = platformv1.OperationSucceeded, &at
	r.status.Progress = fmt.Sprintf("%d/%d", len(r.status.Steps), len(r.status.Steps))
	return Decision{Status: *r.status, Outcome: outcome.Done()}
}

func (r *run) fail(reason, message string) Decision {
	r.status.Progress = r.progress()
	failStatus(r.status, message, r.facts.Now)
	return Decision{Status: *r.status, Outcome: outcome.Stalled(reason, message)}
}

// failStatus ends a run and the step, and the pod in it, that was under way.
func failStatus(status *platformv1.OperationStatus, message string, now time.Time) {
	at := metav1.NewTime(now)
	status.Phase, status.Error, status.CompletionTime = platformv1.OperationFailed, message, &at
	if int(status.CurrentStep) >= len(status.Steps) {
		return
	}
	step := &status.Steps[status.CurrentStep]
	step.Phase, step.Message, step.CompletionTime = platformv1.OperationFailed, message, &at
	for i := range step.Targets {
		if step.Targets[i].Phase == platformv1.OperationRunning {
			step.Targets[i].Phase = platformv1.OperationFailed
		}
	}
}

// progress is the text for printing: which step of how many, and where it is.
func (r *run) progress() string {
	step := r.step()
	text := fmt.Sprintf("%d/%d %s", r.status.CurrentStep+1, len(r.status.Steps), step.Name)
	for i, target := range step.Targets {
		if target.Phase != platformv1.OperationSucceeded {
			return fmt.Sprintf("%s: pod %d of %d", text, i+1, len(step.Targets))
		}
	}
	return text
}
