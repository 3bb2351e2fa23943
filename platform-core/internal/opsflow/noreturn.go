// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Passed says whether a run has passed its point of no return: then nobody ends it, nothing is undone, and what fails
// is tried again.
func Passed(op *platformv1.Operation) bool {
	return meta.IsStatusConditionTrue(op.Status.Conditions, platformv1.PointOfNoReturnCondition)
}

// committer is a kind of step whose beginning is not yet what cannot be taken back.
type committer interface {
	// committed says whether it has come to that.
	committed(r *run, step *platformv1.StepStatus) bool
}

// point is the step from whose beginning on there is no way back; nil for none. A record of what the engine does has
// none of its own.
func (r *run) point() *optemplate.Step {
	if Records(r.op) {
		return nil
	}
	return r.facts.Template.Point()
}

// passed says whether there is no way back.
func (r *run) passed() bool {
	return meta.IsStatusConditionTrue(r.status.Conditions, platformv1.PointOfNoReturnCondition)
}

// look takes note of where the run stands to its point of no return, before anything is decided: what passes it may be
// brought about by others.
func (r *run) look() {
	t := r.point()
	if t == nil || r.passed() {
		return
	}
	step := r.find(t.Name)
	_, later := kindOf(t).(committer)
	if step != nil && (step.Phase == platformv1.OperationSucceeded || later &&
		step.Phase == platformv1.OperationRunning) && r.commit(t, step) {
		return
	}
	if meta.FindStatusCondition(r.status.Conditions, platformv1.PointOfNoReturnCondition) == nil {
		r.tell(metav1.ConditionFalse, platformv1.ReasonNotPassed,
			fmt.Sprintf("step %q, from which on there is no way back, has not begun", t.Name))
	}
}

// commit says whether a step is the point of no return and has been begun, and puts that on record, with what is
// recorded before its effect.
func (r *run) commit(t *optemplate.Step, step *platformv1.StepStatus) bool {
	if r.point() == nil || t.Commits == "" || step.Attempts == 0 {
		return false
	}
	if later, is := kindOf(t).(committer); is && !later.committed(r, step) {
		return false
	}
	r.tell(metav1.ConditionTrue, platformv1.ReasonPassed, fmt.Sprintf("step %q has begun: %s", t.Name, t.Commits))
	return true
}

// tooLate keeps a step from passing the point of no return when the time of the run is over: it ends where it can still
// go back.
func (r *run) tooLate(t *optemplate.Step) verdict {
	if t.Commits == "" || Records(r.op) || r.passed() || r.deadline().After(r.facts.Now) {
		return verdict{}
	}
	return verdict{step: t.Name, waiting: "what comes before it"}
}

// owes says whether a run has its point of no return on record, and has yet to bring about, or to be refused, what is
// behind it. Its time is not over before that: on volumes that it has not opened it would leave nobody writing, and no
// way back.
func (r *run) owes() bool {
	t := r.point()
	if t == nil || !r.passed() {
		return false
	}
	if step := r.find(t.Name); onData(*t) && step != nil {
		return step.Phase == platformv1.OperationRunning && step.Outputs[outputDone] == ""
	}
	return slices.ContainsFunc(r.waits, func(v verdict) bool { return v.step == t.Name && v.effect != nil })
}

// retract is for a step that was refused before it had touched anything: it is as if it had not begun.
func (r *run) retract(t *optemplate.Step) {
	if _, later := kindOf(t).(committer); t.Commits == "" || later || r.point() == nil {
		return
	}
	r.tell(metav1.ConditionFalse, platformv1.ReasonNotPassed,
		fmt.Sprintf("step %q, from which on there is no way back, was refused and touched nothing", t.Name))
}

func (r *run) tell(status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&r.status.Conditions,
		metav1.Condition{Type: platformv1.PointOfNoReturnCondition, Status: status, Reason: reason, Message: message,
			ObservedGeneration: r.op.Generation, LastTransitionTime: metav1.NewTime(r.facts.Now)})
}

// inherit passes the point of no return with an Operation that a step runs.
func (r *run) inherit(child *platformv1.OperationStatus, name string) {
	if point := meta.FindStatusCondition(child.Conditions, platformv1.PointOfNoReturnCondition); point != nil &&
		point.Status == metav1.ConditionTrue {
		r.tell(metav1.ConditionTrue, platformv1.ReasonPassed,
			fmt.Sprintf("Operation %q, which it runs, has passed its own: %s", name, point.Message))
	}
}

// goForward is what is said of a run that fails past its point of no return.
func (r *run) goForward() string {
	return fmt.Sprintf("it had passed its point of no return, so that nothing is undone: once what failed is mended, an "+
		"Operation with retryOf %q goes on from here", r.op.Name)
}
