// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// forward takes every step that can go on, again while steps end that leave their place to others.
func (r *run) forward() {
	for {
		before := r.endedSteps()
		r.waits = nil
		if r.round(); r.status.Ending != "" || r.facts.Template.Parallelism == 0 || r.endedSteps() == before {
			return
		}
	}
}

// endedSteps is how many steps are through.
func (r *run) endedSteps() int {
	n := 0
	for i := range r.status.Steps {
		if ended(&r.status.Steps[i]) {
			n++
		}
	}
	return n
}

// round takes every step that can go on, in topological order, so that what ends in this reconcile lets others begin.
func (r *run) round() {
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if ended(step) || r.facts.Template.Compensates(step.Name) {
			continue
		}
		t, known := r.facts.Template.Step(step.Name)
		if !known || kindOf(t) == nil {
			r.end(platformv1.EndingFailed, step.Name,
				fmt.Sprintf("step %q is no longer part of template %q", step.Name, r.facts.Template.Name))
			return
		}
		if slices.ContainsFunc(r.facts.Template.NeedsOf(step.Name), func(need string) bool {
			before := r.find(need)
			return before == nil || !ended(before)
		}) || r.unapproved(step) {
			continue
		}
		v := r.held(t)
		if v.done() {
			v = r.unaided(t, step)
		}
		if v.done() {
			v = r.take(t, step)
		}
		if v.failed != "" {
			v = r.failed(t, step, v)
		}
		if r.status.Ending != "" {
			return
		}
		if v.waiting != "" {
			r.waits = append(r.waits, v)
		}
	}
}

// take goes on with one step.
func (r *run) take(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		if at := step.NextAttemptTime; at != nil && r.facts.Now.Before(at.Time) {
			return verdict{step: t.Name, waiting: fmt.Sprintf("the next attempt at %s", at.UTC().Format(time.TimeOnly)),
				retry: at.Sub(r.facts.Now)}
		}
		if t.When != "" && step.Attempts == 0 {
			wanted, err := r.facts.Template.Truth(t.Name, t.When, r.variables(t, nil))
			if err != nil {
				return failedf("cannot say whether step %q is wanted: %v", t.Name, err)
			}
			if !wanted {
				step.Phase = platformv1.OperationSkipped
				return verdict{}
			}
		}
		if v := r.mayBegin(t); !v.done() {
			return v
		}
		if v := r.tooLate(t); !v.done() {
			return v
		}
	}
	before := step.DeepCopy()
	v := r.leftAlone(t)
	if v.done() {
		v = kindOf(t).advance(r, t, step)
	}
	if v.done() {
		v = r.fits(step)
	}
	v.step = t.Name
	r.commit(t, step)
	if v.effect != nil && before.Phase == platformv1.OperationRunning && before.Message != "" &&
		slices.Equal(before.Targets, step.Targets) {
		// Asking again is no news: what was said last stays until there is an answer.
		v.waiting = strings.TrimPrefix(before.Message, waitingFor)
		v.reason = cmp.Or(v.reason, r.stopped(t.Name, before.Message))
	}
	switch {
	case v.waiting != "":
		return r.inTime(t, step, v)
	case v.done():
		at := metav1.NewTime(r.facts.Now)
		r.tellTypes(step)
		step.Phase, step.CompletionTime, step.Message, step.NextAttemptTime = platformv1.OperationSucceeded, &at, "", nil
	}
	return v
}

// inTime has a step fail that takes longer than its template allows.
func (r *run) inTime(t *optemplate.Step, step *platformv1.StepStatus, v verdict) verdict {
	limit := t.Timeout.Duration()
	if limit == 0 && !r.facts.Template.Plain(t.Name) {
		limit = DefaultTimeout
	}
	if limit == 0 || step.StartTime == nil || v.reason == platformv1.ReasonWaitingForMaintenance {
		return v
	}
	from := step.StartTime.Time
	if resumed := r.resumed(); resumed.After(from) {
		from = resumed.Time
	}
	left := from.Add(limit).Sub(r.facts.Now)
	if left <= 0 {
		// No further attempt could be in time.
		return verdict{failed: fmt.Sprintf("step %q is not done within %s: it waited for %s", t.Name, limit, v.waiting),
			final: yes}
	}
	if v.retry == 0 || left < v.retry {
		v.retry = left
	}
	return v
}

// begin records that a step was begun.
func (r *run) begin(step *platformv1.StepStatus) {
	at := metav1.NewTime(r.facts.Now)
	if step.StartTime == nil {
		step.StartTime = &at
	}
	step.Phase, step.NextAttemptTime = platformv1.OperationRunning, nil
	step.Attempts++
	delete(step.Outputs, outputDataBad)
}

// failed decides what becomes of a step that failed: another attempt, a run that goes on without it, or the end. Past
// the point of no return it is tried again for as long as the run may take, unless it is refused.
func (r *run) failed(t *optemplate.Step, step *platformv1.StepStatus, v verdict) verdict {
	why := v.failed
	for i := range step.Targets {
		if step.Targets[i].Phase == platformv1.OperationRunning {
			step.Targets[i].Phase = platformv1.OperationFailed
		}
	}
	attempt := max(step.Attempts, 1)
	if step.Phase == platformv1.OperationPending {
		// It failed before it was counted.
		attempt = step.Attempts + 1
	}
	if v.untouched == yes && attempt == 1 {
		r.retract(t)
	}
	again := attempt <= r.retry(t).Limit
	if last := r.lastExit(t, step, v); again && last != "" {
		again, why = false, why+"; "+last
	}
	if v.final != yes && (again || r.passed() && v.untouched != yes && !r.continues(t.Name)) {
		wait := r.backoff(t, attempt)
		at := metav1.NewTime(r.facts.Now.Add(wait))
		step.Phase, step.NextAttemptTime, step.Attempts = platformv1.OperationPending, &at, attempt
		return verdict{step: t.Name, waiting: fmt.Sprintf("the next attempt at %s, after attempt %d: %s",
			at.UTC().Format(time.TimeOnly), attempt, why), retry: wait}
	}
	at := metav1.NewTime(r.facts.Now)
	step.Phase, step.Message, step.CompletionTime = platformv1.OperationFailed, why, &at
	if !r.continues(t.Name) && r.status.Ending == "" {
		r.end(platformv1.EndingFailed, t.Name, why)
	}
	return verdict{}
}

// continues says whether the run goes on when a step fails.
func (r *run) continues(name string) bool {
	t, ok := r.facts.Template.Step(name)
	return ok && (t.OnFailure == optemplate.FailureContinues || t.OnFailure == optemplate.FailureDefers)
}

// end has the run end early. culprit is the step that it ends for; empty for none.
func (r *run) end(ending platformv1.OperationEnding, culprit, why string) {
	r.status.Ending = ending
	if ending == platformv1.EndingFailed {
		r.status.Error, r.reason = why, ReasonStepFailed
	}
	if step := r.find(culprit); step != nil && !ended(step) {
		at := metav1.NewTime(r.facts.Now)
		step.Phase, step.Message, step.CompletionTime = platformv1.OperationFailed, why, &at
		for i := range step.Targets {
			if step.Targets[i].Phase == platformv1.OperationRunning {
				step.Targets[i].Phase = platformv1.OperationFailed
			}
		}
	}
	r.stopSteps(why, platformv1.OperationCancelled)
}

// stopSteps leaves the steps that are under way as they are. What is taken finally goes on, where the run does.
func (r *run) stopSteps(why string, phase platformv1.OperationPhase) {
	at := metav1.NewTime(r.facts.Now)
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if step.Phase != platformv1.OperationRunning || r.facts.Template.Finally(step.Name) {
			continue
		}
		step.Phase, step.CompletionTime, step.Message = phase, &at, why
		for j := range step.Targets {
			if step.Targets[j].Phase == platformv1.OperationRunning {
				step.Targets[j].Phase = phase
			}
		}
	}
}

// compensate takes the steps that undo what was begun, one after the other, in their order. One that fails keeps no
// other from being taken.
func (r *run) compensate() {
	var wanted []string
	for i := range r.facts.Template.Steps {
		t := &r.facts.Template.Steps[i]
		step := r.find(t.Name)
		if step == nil || step.Attempts == 0 {
			continue
		}
		if !r.passed() {
			wanted = append(wanted, t.Compensate...)
		}
		if v := r.withdrawn(t, step); !v.done() {
			v.step = t.Name
			r.waits = append(r.waits, v)
			return
		}
	}
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		t, known := r.facts.Template.Step(step.Name)
		if !known || ended(step) || !r.facts.Template.Compensates(step.Name) {
			continue
		}
		if !slices.Contains(wanted, step.Name) {
			step.Phase = platformv1.OperationSkipped
			continue
		}
		v := r.take(t, step)
		if v.failed != "" {
			v = r.failed(t, step, v)
		}
		if v.waiting != "" {
			r.waits = append(r.waits, v)
			return
		}
	}
}

// withdrawn is done when nothing goes on any more that a step began.
func (r *run) withdrawn(t *optemplate.Step, step *platformv1.StepStatus) verdict {
	switch {
	case t.Job != nil, t.Task() != nil, does(*t, optemplate.EnginePrepareData):
		return r.withdrawJobs(t, step)
	case t.Operation != nil && t.Operation.Inline() != nil:
		return r.withdrawChildren(t, step)
	case does(*t, optemplate.EngineBackup):
		return r.withdrawBackup(step)
	case does(*t, optemplate.EngineDrill):
		return r.withdrawDrill(step)
	case asksForPrimary(t):
		return withdraw(r, step)
	}
	return verdict{}
}

// asksForPrimary says whether a step may ask a set for another primary.
func asksForPrimary(t *optemplate.Step) bool {
	return t.Engine != nil && t.Engine.Do.OnPods() || t.Agent != nil && t.Agent.Call == optemplate.AgentRestart
}

// ended is the decision of a run that ended early and has nothing left to compensate.
func (r *run) ended() Decision {
	message := r.status.Error
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		switch {
		case step.Phase != platformv1.OperationFailed:
		case r.facts.Template.Compensates(step.Name):
			message = join(message, fmt.Sprintf("step %q did not undo what was done: %s", step.Name, step.Message))
		case r.facts.Template.Finally(step.Name) && step.Message != r.status.Error:
			message = join(message, fmt.Sprintf("step %q, which is taken finally, failed: %s", step.Name, step.Message))
		}
	}
	if r.passed() {
		message = join(message, r.goForward())
	}
	if r.status.Ending == platformv1.EndingCancelled {
		return r.finish(platformv1.OperationCancelled, message,
			outcome.Stalled(platformv1.ReasonCancelled, join("it was cancelled", message)))
	}
	reason := r.reason
	if reason == "" {
		reason = ReasonStepFailed
	}
	return r.finish(platformv1.OperationFailed, message, outcome.Stalled(reason, message))
}

func join(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return first + "; " + second
}

// stepOf is the record that a step begins with: what it came to in an earlier run, where it need not be taken again. An
// upgrade keeps the version from before its edit, which has been made by now.
func stepOf(earlier *platformv1.Operation, t *optemplate.Step) platformv1.StepStatus {
	begins := platformv1.StepStatus{Name: t.Name, Phase: platformv1.OperationPending}
	for _, step := range earlier.Status.Steps {
		from, known := step.Outputs[outputFrom]
		switch {
		case step.Name != t.Name:
		case step.Phase == platformv1.OperationSucceeded || step.Phase == platformv1.OperationSkipped:
			return *step.DeepCopy()
		case onData(*t) && t.Commits != "" && Passed(earlier):
			// Clients may have been led there: to be refused now does not say that nothing was touched.
			begins.Attempts = step.Attempts
		case known && does(*t, optemplate.EngineUpgrade):
			begins.Outputs = map[string]string{outputFrom: from}
		}
	}
	return begins
}
