// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// deferred says which steps failed that have the run fail at its end; empty for none.
func (r *run) deferred() string {
	first, more := "", 0
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if t, ok := r.facts.Template.Step(step.Name); !ok || t.OnFailure != optemplate.FailureDefers ||
			step.Phase != platformv1.OperationFailed {
			continue
		}
		if first != "" {
			more++
			continue
		}
		first = fmt.Sprintf("step %q failed: %s", step.Name, step.Message)
	}
	if more > 0 {
		return fmt.Sprintf("%s; and so did %d more", first, more)
	}
	return first
}

// hinges says whether a step follows from one that failed in an earlier run, which continued: what became of it there
// says nothing. Only the steps of an inline template follow from one as well that has no run fail: those of others go
// on as if it had succeeded.
func hinges(template optemplate.Template, earlier *platformv1.Operation, name string) bool {
	before := template.Before(name)
	return slices.ContainsFunc(earlier.Status.Steps, func(step platformv1.StepStatus) bool {
		t, ok := template.Step(step.Name)
		if !ok || step.Phase != platformv1.OperationFailed || !slices.Contains(before, step.Name) {
			return false
		}
		return t.OnFailure == optemplate.FailureDefers || t.OnFailure == optemplate.FailureContinues && IsInline(earlier)
	})
}

// takeFinal takes the steps that are taken finally, of a run that ends early. One that failed keeps no other from being
// taken.
func (r *run) takeFinal() {
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		t, known := r.facts.Template.Step(step.Name)
		if !known || !t.Finally || ended(step) {
			continue
		}
		if slices.ContainsFunc(t.Needs, func(need string) bool {
			before := r.find(need)
			return before != nil && !ended(before)
		}) {
			continue
		}
		v := r.take(t, step)
		if v.failed != "" {
			v = r.failed(t, step, v)
		}
		if v.waiting != "" {
			r.waits = append(r.waits, v)
		}
	}
}

// awaitsOnlyFinal says whether all that goes on is taken finally: each of those steps has a time of its own.
func (r *run) awaitsOnlyFinal() bool {
	return len(r.waits) > 0 && !slices.ContainsFunc(r.waits,
		func(v verdict) bool { return !r.facts.Template.Finally(v.step) })
}

// mayBegin is the verdict of a step that waits although all that it needs has ended: since the run is suspended, or
// since as many are under way as may be.
func (r *run) mayBegin(t *optemplate.Step) verdict {
	if r.op.Spec.Suspend && r.status.Ending == "" {
		return verdict{step: t.Name, waiting: "spec.suspend to be false", reason: platformv1.ReasonSuspended}
	}
	limit := r.facts.Template.Parallelism
	if limit == 0 || !isWork(t) || !r.facts.Template.Plain(t.Name) {
		return verdict{}
	}
	running := 0
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		if other, ok := r.facts.Template.Step(step.Name); ok && isWork(other) && step.Phase == platformv1.OperationRunning {
			running++
		}
	}
	if running >= limit {
		return verdict{step: t.Name, waiting: fmt.Sprintf("one of %d steps to end: as many may be under way at a time",
			running)}
	}
	return verdict{}
}

// isWork says whether a step runs pods or makes calls.
func isWork(t *optemplate.Step) bool {
	return t.Job != nil || t.Task() != nil || t.HTTP != nil
}
