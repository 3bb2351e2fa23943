// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// DefaultTimeout is the timeout of a run where neither its spec nor its template gives one.
const DefaultTimeout = 10 * time.Minute

// Reasons of Operations. These are beside those of package platformv1.
const (
	// ReasonQueued: another Operation of the same Application runs. This one begins by itself when that has ended.
	// Wait, or cancel the Operation that the message names.
	ReasonQueued = "Queued"
	// ReasonStepFailed: a step of the Operation failed, and the message says which and why. The Operation fails.
	// Remove the cause, and create another Operation, with retryOf to go on after the steps that succeeded.
	ReasonStepFailed = "StepFailed"
	// ReasonTimedOut: the Operation did not end within its timeout. It fails. Remove what the message waits for,
	// and create another Operation, or set a longer timeout.
	ReasonTimedOut = "TimedOut"
	// ReasonAgentUnreachable: the agent of a pod does not answer. The operator makes the call again. Look at the
	// pod that the message names when it stays the same for long.
	ReasonAgentUnreachable = "AgentUnreachable"
	// ReasonAwaitingApproval: the Operation waits until it is approved. Have somebody other than its author
	// approve it, or cancel it.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonSpecRefused: the last edit of the spec cannot be carried out, so the edit before it cannot be
	// completed either. The operator goes on when the spec is correct. Correct the spec as the message says.
	ReasonSpecRefused = "SpecRefused"
	// ReasonDryRun: the Operation is a dry run, and status.plan says what it would do. Create it without dryRun to
	// have it done.
	ReasonDryRun = "DryRun"
)

// waitingFor begins the message of a step that is under way.
const waitingFor = "waiting for "

// Decision is how an Operation goes on.
type Decision struct {
	// Status to record, conditions aside.
	Status platformv1.OperationStatus
	// Outcome to report in the conditions; its clock is when to look again without any event.
	Outcome outcome.Outcome
	// Effect to bring about once Status is written; nil for none. When Status is the same as recorded, nothing
	// needs to be written before: the next decision follows it in the same reconcile.
	Effect *Effect
}

// Finished says whether a run has ended. A finished Operation never changes again.
func Finished(op *platformv1.Operation) bool { return op.Status.Phase.Ended() }

// Running says whether a run has begun and not ended.
func Running(op *platformv1.Operation) bool {
	return op.Status.Phase == platformv1.OperationRunning || op.Status.Phase == platformv1.OperationAwaitingApproval
}

// Fail ends an Operation at once: what it needs to go on, or to compensate, is not there.
func Fail(op *platformv1.Operation, refusal *Refusal, now time.Time) Decision {
	r := &run{op: op, facts: Facts{Now: now}, status: op.Status.DeepCopy()}
	r.stopSteps(refusal.Message, platformv1.OperationFailed)
	return r.finish(platformv1.OperationFailed, refusal.Message, outcome.Stalled(refusal.Reason, refusal.Message))
}

// Abandon ends a run whose target was deleted under it: there is nothing left to compensate.
func Abandon(op *platformv1.Operation, now time.Time) Decision {
	r := &run{op: op, facts: Facts{Now: now}, status: op.Status.DeepCopy()}
	target := op.Spec.TargetRef
	r.status.Error = fmt.Sprintf("pre-empted by the deletion of %s %q", target.Kind, target.Name)
	r.stopSteps("it was "+r.status.Error, platformv1.OperationCancelled)
	return r.finish(platformv1.OperationCancelled, r.status.Error,
		outcome.Stalled(platformv1.ReasonCancelled, "it was "+r.status.Error))
}

// Delete ends a run that was deleted, and stays until its artifacts are removed.
func Delete(op *platformv1.Operation, now time.Time) Decision {
	const why = "it was deleted before it ended"
	return Fail(op, &Refusal{Reason: platformv1.ReasonDeleting, Message: why}, now)
}

// Wait leaves an Operation that has done nothing yet pending, with the reason why. One that is cancelled ends instead.
func Wait(op *platformv1.Operation, application string, o outcome.Outcome, now time.Time) Decision {
	r := &run{op: op, facts: Facts{Now: now}, status: op.Status.DeepCopy()}
	r.status.Application = application
	if op.Spec.Cancel {
		r.stopSteps("it was cancelled", platformv1.OperationCancelled)
		return r.finish(platformv1.OperationCancelled, "",
			outcome.Stalled(platformv1.ReasonCancelled, "it was cancelled before it began"))
	}
	r.letGo()
	r.status.Phase, r.status.Trigger, r.status.Progress = platformv1.OperationPending, TriggerOf(op), "waiting"
	r.status.Steps, r.status.CurrentStep, r.status.StartTime, r.status.Plugin, r.status.Timeout = nil, 0, nil, nil, nil
	return Decision{Status: *r.status, Outcome: o}
}

// Start begins the run of an Operation, and decides on its first steps at once. Steps that succeeded in an earlier run,
// which this one tries again, are taken over from there, but for an approval, which was given to that run only; earlier
// is nil for none.
func Start(op *platformv1.Operation, application string, facts Facts, earlier *platformv1.Operation) Decision {
	begun := op.DeepCopy()
	status := &begun.Status
	status.Steps = nil
	at := metav1.NewTime(facts.Now)
	status.Phase, status.Application, status.Trigger, status.StartTime = platformv1.OperationRunning, application,
		TriggerOf(op), &at
	status.Plugin, status.Timeout = facts.Plugin, timeoutUnder(op, facts.Template)
	if earlier != nil && !carriesOver(earlier, facts.Template) {
		earlier = nil
	}
	for _, name := range facts.Template.Order() {
		step := platformv1.StepStatus{Name: name, Phase: platformv1.OperationPending}
		t, known := facts.Template.Step(name)
		if earlier != nil && known && t.Approval == nil && facts.Template.Plain(name) &&
			!hinges(facts.Template, earlier, name) {
			step = stepOf(earlier, t)
		}
		status.Steps = append(status.Steps, step)
	}
	if op.Spec.DryRun {
		r := &run{op: begun, facts: facts, status: status, foretold: new(int)}
		return r.dryRun()
	}
	status.Artifacts = artifactsOf(op, earlier, facts.Template)
	return Next(begun, facts)
}

// Next decides how a running Operation goes on.
func Next(op *platformv1.Operation, facts Facts) Decision {
	r := &run{op: op, facts: facts, status: op.Status.DeepCopy()}
	r.look()
	if r.status.Ending == "" && (op.Spec.Cancel || facts.ParentEnded) && !r.passed() {
		r.end(platformv1.EndingCancelled, "", "it was cancelled")
	}
	if r.status.Ending == "" && r.facts.Preempted != "" && !r.passed() {
		r.status.Error = "pre-empted by " + r.facts.Preempted
		r.end(platformv1.EndingCancelled, "", "it was "+r.status.Error)
	}
	if r.status.Ending == "" {
		r.forward()
	}
	if r.status.Ending == "" && len(r.waits) == 0 {
		why := r.deferred()
		if why == "" {
			why = r.conclude()
		}
		if why == "" {
			return r.succeed()
		}
		r.end(platformv1.EndingFailed, "", why)
	}
	if r.status.Ending == "" {
		r.noteHold()
	}
	if left, limited := r.left(); r.status.Ending == "" && limited && left <= 0 && !r.owes() {
		first := r.waits[0]
		r.end(platformv1.EndingFailed, first.step,
			fmt.Sprintf("not done within %s: step %q waited for %s", TimeoutOf(r.op), first.step, first.waiting))
		r.reason = ReasonTimedOut
	}
	if r.status.Ending != "" {
		r.waits = nil
		if r.compensate(); len(r.waits) == 0 {
			r.takeFinal()
		}
		if len(r.waits) == 0 {
			return r.ended()
		}
	}
	return r.wait()
}

// run is one Operation on its way through its steps.
type run struct {
	op     *platformv1.Operation
	facts  Facts
	status *platformv1.OperationStatus
	// waits are the verdicts of the steps that are under way, in order.
	waits []verdict
	// reason of an end in this reconcile.
	reason string
	// path of the steps that lead to it, for what a dry run describes of one that a step would run, and how many of those
	// it has described.
	path     string
	foretold *int
}

// verdict is what a step, or a pod within it, says. The zero verdict is done.
type verdict struct {
	// step that says so.
	step string
	// waiting names what is waited for.
	waiting string
	// failed says why the step fails.
	failed string
	// reason of waiting, where somebody acts on it.
	reason string
	// retry is when to look again although nothing happened; 0 for never.
	retry time.Duration
	// unreachable says that an agent does not answer.
	unreachable string
	// exitCode of the container of a step that failed; 0 for none.
	exitCode int32
	// effect to bring about.
	effect *Effect
	// approval says that a person is waited for, final that another attempt is of no use, untouched that a step failed
	// before it had done anything.
	approval, final, untouched answer
}

// answer to a question.
type answer string

const yes answer = "yes"

func (v verdict) done() bool { return v.waiting == "" && v.failed == "" }

func failedf(format string, args ...any) verdict {
	return verdict{failed: fmt.Sprintf(format, args...)}
}

// ended says whether a step is through.
func ended(step *platformv1.StepStatus) bool {
	switch step.Phase {
	case platformv1.OperationPending, platformv1.OperationRunning:
		return false
	}
	return true
}

// wait is the decision of a run that goes on.
func (r *run) wait() Decision {
	first, told := r.waits[0], r.told()
	after, reason := time.Duration(0), platformv1.ReasonProgressing
	if left, limited := r.left(); r.status.Ending == "" && limited {
		after = max(left, 0)
	}
	var effect *Effect
	for _, v := range r.waits {
		if v.retry > 0 && (after == 0 || v.retry < after) {
			after = v.retry
		}
		if v.unreachable != "" {
			reason = ReasonAgentUnreachable
		}
		reason = cmp.Or(v.reason, reason)
		if effect == nil {
			effect = v.effect
		}
		if step := r.find(v.step); !ended(step) {
			step.Message = waitingFor + v.waiting
		}
	}
	if platformv1.StopsRun(told.reason) {
		reason = told.reason
	}
	r.status.Phase = platformv1.OperationRunning
	if r.awaitsOnlyApproval() {
		r.status.Phase, reason = platformv1.OperationAwaitingApproval, ReasonAwaitingApproval
	}
	r.status.CurrentStep = r.current()
	r.status.Progress = r.progress(r.find(first.step))
	message := saying(told.step, waitingFor+told.waiting)
	return Decision{Status: *r.status, Outcome: outcome.WaitingFor(after, reason, message), Effect: effect}
}

func (r *run) awaitsOnlyApproval() bool {
	for _, v := range r.waits {
		if v.approval != yes {
			return false
		}
	}
	return len(r.waits) > 0
}

func (r *run) find(name string) *platformv1.StepStatus {
	for i := range r.status.Steps {
		if r.status.Steps[i].Name == name {
			return &r.status.Steps[i]
		}
	}
	return nil
}

// TimeoutOf is how long a run that has begun may take: what was on record for it then, whatever becomes of its
// template.
func TimeoutOf(op *platformv1.Operation) time.Duration {
	switch {
	case op.Spec.Timeout != nil:
		return op.Spec.Timeout.Duration
	case op.Status.Timeout != nil:
		return op.Status.Timeout.Duration
	}
	return DefaultTimeout
}

// timeoutUnder is how long a run of a template may take; nil for a record, which has no deadline.
func timeoutUnder(op *platformv1.Operation, template optemplate.Template) *metav1.Duration {
	switch {
	case Records(op):
		return nil
	case op.Spec.Timeout != nil:
		return &metav1.Duration{Duration: op.Spec.Timeout.Duration}
	case template.Timeout != "":
		return &metav1.Duration{Duration: template.Timeout.Duration()}
	}
	return &metav1.Duration{Duration: DefaultTimeout}
}

// left is the time that the run has, where that is limited. The time until somebody approved does not count, nor that
// until a maintenance window.
func (r *run) left() (time.Duration, bool) {
	if Records(r.op) || r.awaitsOnlyApproval() || r.awaitsOnlyWindow() || r.awaitsOnlyFinal() {
		return 0, false
	}
	return r.deadline().Sub(r.facts.Now), true
}

func (r *run) deadline() time.Time {
	from := r.status.StartTime.Time
	if resumed := r.resumed(); resumed.After(from) {
		from = resumed.Time
	}
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if t, ok := r.facts.Template.Step(step.Name); ok && t.Approval != nil && step.CompletionTime != nil &&
			step.CompletionTime.After(from) {
			from = step.CompletionTime.Time
		}
	}
	return from.Add(TimeoutOf(r.op))
}

func (r *run) succeed() Decision {
	for i := range r.status.Steps {
		if step := &r.status.Steps[i]; !ended(step) {
			step.Phase = platformv1.OperationSkipped
		}
	}
	return r.finish(platformv1.OperationSucceeded, "", outcome.Done())
}

// finish ends the run.
func (r *run) finish(phase platformv1.OperationPhase, message string, o outcome.Outcome) Decision {
	at := metav1.NewTime(r.facts.Now)
	r.letGo()
	r.status.Phase, r.status.Error, r.status.CompletionTime = phase, message, &at
	r.status.Trigger = TriggerOf(r.op)
	r.status.CurrentStep = r.current()
	if steps := len(r.status.Steps); steps > 0 {
		r.status.Progress = fmt.Sprintf("%d/%d", steps, steps)
		if current := int(r.status.CurrentStep); current < steps {
			r.status.Progress = r.progress(&r.status.Steps[current])
		}
	}
	return Decision{Status: *r.status, Outcome: o}
}

// current is the lowest index of a step that is not through, or that ended the run.
func (r *run) current() int32 {
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		switch step.Phase {
		case platformv1.OperationSucceeded, platformv1.OperationSkipped:
			continue
		case platformv1.OperationFailed:
			if r.continues(step.Name) {
				continue
			}
		}
		return int32(i)
	}
	return int32(len(r.status.Steps))
}

// progress is the text for printing: which step of how many, and where it is.
func (r *run) progress(step *platformv1.StepStatus) string {
	number := 1
	for i := range r.status.Steps {
		if r.status.Steps[i].Name == step.Name {
			number = i + 1
		}
	}
	text := fmt.Sprintf("%d/%d %s", number, len(r.status.Steps), step.Name)
	if step.Items != nil {
		return fmt.Sprintf("%s: %d of %d items", text, step.Items.Succeeded, step.Items.Total)
	}
	what := "item"
	for i, target := range step.Targets {
		if target.UID != "" {
			what = "pod"
		}
		if target.Phase != platformv1.OperationSucceeded {
			return fmt.Sprintf("%s: %s %d of %d", text, what, i+1, len(step.Targets))
		}
	}
	return text
}
