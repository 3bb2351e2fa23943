// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

// domain of the operator.
const domain = "batch"

// defaultDeadline is how long a run may take whose Workflow says nothing.
const defaultDeadline = 24 * time.Hour

// terminated says how a run ended whose Operation was deleted for spec.terminate.
const terminated = "it was terminated"

// facts are what is decided on beside the Workflow.
type facts struct {
	now time.Time
	// operation is that of the status; nil when it does not exist.
	operation *platformv1.Operation
	// unrecorded says that the Operation of the next attempt exists: the operator was killed before that was on record.
	unrecorded bool
	// template is the Workflow that the tasks are from; nil when it does not exist, or none is named.
	template *batchv1.Workflow
	// library has the Workflows that the tasks run.
	library taskgraph.Library
	// check says what is wrong with an inline template.
	check func(text string) error
	// waiting says for which mutex or semaphore the run waits; empty when it holds all that it needs.
	waiting string
}

// plan is what to do now, in this order.
type plan struct {
	// create is the Operation of an attempt, complete but for its owner; nil for none.
	create *platformv1.Operation
	// suspend is what spec.suspend of the Operation is to be; nil where it is that already.
	suspend *bool
	// cancel names the Operation to cancel; empty for none.
	cancel string
	// terminate is the Operation to delete; nil for none.
	terminate *platformv1.Operation
	// remove says that the time of the Workflow is over.
	remove bool
	// invalid says why the spec cannot be had; nil when it can.
	invalid error
	// blocked is the reason for which the pod of a task does not start; empty where none is kept from it.
	blocked string
	// wake is when to look again although nothing happened; zero for never.
	wake time.Time
}

// finished says whether the attempt of a status has ended.
func finished(s *batchv1.WorkflowStatus) bool {
	switch s.Phase {
	case batchv1.WorkflowSucceeded, batchv1.WorkflowFailed, batchv1.WorkflowStopped:
		return true
	}
	return false
}

// retries says whether a retry is asked for that was not made.
func retries(wf *batchv1.Workflow) bool { return retryAsked(wf) && !ends(wf) }

// retryAsked is retries, whether or not the run is to end.
func retryAsked(wf *batchv1.Workflow) bool {
	asked, s := wf.Annotations[batchv1.RetryAnnotation], &wf.Status
	return asked != "" && asked != s.LastRetry && (s.Phase == batchv1.WorkflowFailed || s.Phase == batchv1.WorkflowStopped)
}

// isHeld says whether the next attempt is not to begin although nothing but the spec says so.
func isHeld(wf *batchv1.Workflow) bool {
	if wf.Status.Operation == "" {
		return !wf.Spec.TemplateOnly && (ends(wf) || wf.Spec.Suspend)
	}
	return retryAsked(wf) && ends(wf)
}

// ends says whether a run is to end, or not to begin.
func ends(wf *batchv1.Workflow) bool { return wf.Spec.Stop || wf.Spec.Terminate }

// decide plans what comes of a Workflow now, and fills in its status but for the conditions.
func decide(wf *batchv1.Workflow, f facts) plan {
	if !wf.Spec.TemplateOnly && finished(&wf.Status) && !retries(wf) && !f.unrecorded {
		return expire(wf, f)
	}
	p := proceed(wf, f)
	if finished(&wf.Status) {
		over := expire(wf, f)
		p.wake = over.wake
		// One that has just ended goes once that is on record, and one whose retry cannot be had with its time.
		p.remove = over.remove && p.invalid != nil
	}
	return p
}

// proceed is decide for a Workflow that has not finished, or is to be tried again.
func proceed(wf *batchv1.Workflow, f facts) plan {
	s := &wf.Status
	switch {
	case wf.Spec.TemplateOnly:
		return checkTemplate(wf, f)
	case f.unrecorded:
		return begin(wf, f)
	case s.Operation == "" && ends(wf):
		s.Phase, s.Message, s.CompletionTime = batchv1.WorkflowStopped, "it was stopped before it began",
			new(metav1.NewTime(f.now))
		return plan{}
	case s.Operation == "" && wf.Spec.Suspend:
		s.Phase, s.Message = batchv1.WorkflowSuspended, "waiting for spec.suspend to be false"
		return plan{}
	case s.Operation == "" || finished(s):
		return begin(wf, f)
	case f.operation == nil && wf.Spec.Terminate:
		s.Phase, s.Message, s.CompletionTime = batchv1.WorkflowStopped, terminated, new(metav1.NewTime(f.now))
		return plan{}
	case f.operation == nil:
		s.Phase, s.CompletionTime = batchv1.WorkflowFailed, new(metav1.NewTime(f.now))
		s.Message = fmt.Sprintf("Operation %q was deleted before it ended", s.Operation)
		return plan{}
	}
	return follow(wf, f)
}

// checkTemplate checks a Workflow that does not run.
func checkTemplate(wf *batchv1.Workflow, f facts) plan {
	wf.Status.Phase, wf.Status.Message = batchv1.WorkflowIsTemplate, ""
	_, err := taskgraph.Prepare(taskgraph.SourceOf(wf), nil, f.library, f.check)
	return plan{invalid: err}
}

// begin creates the Operation of the first attempt or of a retry.
func begin(wf *batchv1.Workflow, f facts) plan {
	s := &wf.Status
	from := taskgraph.SourceOf(wf)
	if ref := wf.Spec.TemplateFrom; ref != nil {
		if err := taskgraph.CheckTemplate(*ref, f.template); err != nil {
			return plan{invalid: fmt.Errorf("spec.templateFrom: %w", err)}
		}
		from = taskgraph.SourceOf(f.template)
	}
	text, err := taskgraph.Prepare(from, wf.Spec.Parallelism, f.library, f.check)
	if err == nil {
		err = taskgraph.CheckArguments(from.Parameters, wf.Spec.Arguments)
	}
	if name := f.library.Approves(); err == nil && name != "" && wf.Spec.Author == "" {
		err = fmt.Errorf("spec.tasks: Workflow %q has an approval, which needs spec.author: create this Workflow with your "+
			"user name there", name)
	}
	if err != nil {
		return plan{invalid: err}
	}
	op := operationOf(wf, text, s.Attempt+1)
	if err := semaphore.Mark(op, wf.Spec.Synchronization); err != nil {
		return plan{invalid: err}
	}
	if before := f.operation; finished(s) && before != nil && before.DeletionTimestamp.IsZero() &&
		before.Spec.Template == text {
		op.Spec.RetryOf = before.Name
	}
	s.LastRetry = wf.Annotations[batchv1.RetryAnnotation]
	s.Attempt, s.Operation, s.OperationUID, s.StartTime, s.CompletionTime = s.Attempt+1, op.Name, "", nil, nil
	s.Phase, s.Message, s.Tasks, s.Outputs = batchv1.WorkflowPending, "", nil, nil
	for i := range from.Tasks {
		s.Tasks = append(s.Tasks, batchv1.TaskStatus{Name: from.Tasks[i].Name, Phase: platformv1.OperationPending})
	}
	for i := range from.OnExit {
		s.Tasks = append(s.Tasks, batchv1.TaskStatus{Name: from.OnExit[i].Name, Phase: platformv1.OperationPending})
	}
	s.Progress = progress(s.Tasks)
	return plan{create: op}
}

// nameOf is the name of the Operation of an attempt.
func nameOf(wf *batchv1.Workflow, attempt int32) string {
	id, _, _ := strings.Cut(string(wf.UID), "-")
	return platformv1.DerivedName(platformv1.MaxLabelValue, wf.Name, id, strconv.Itoa(int(attempt)))
}

// operationOf is the Operation of an attempt, complete but for its owner.
func operationOf(wf *batchv1.Workflow, text string, attempt int32) *platformv1.Operation {
	parameters := platformv1.Parameters{}
	for name, value := range wf.Spec.Arguments {
		parameters[name] = platformv1.ParameterValue(value)
	}
	if len(parameters) == 0 {
		parameters = nil
	}
	deadline := &metav1.Duration{Duration: defaultDeadline}
	if wf.Spec.ActiveDeadline != nil {
		deadline.Duration = wf.Spec.ActiveDeadline.Duration
	}
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: wf.Namespace, Name: nameOf(wf, attempt),
			Labels: map[string]string{platformv1.DomainLabel: domain, platformv1.ManagedByLabel: platformv1.ManagedBy,
				batchv1.WorkflowLabel: wf.Name},
		},
		Spec: platformv1.OperationSpec{
			Template: text, Parameters: parameters, Timeout: deadline, Author: wf.Spec.Author,
			ServiceAccountName: wf.Spec.ServiceAccountName,
			Suspend:            wf.Spec.Suspend,
		},
	}
}

// follow mirrors an Operation, and has it do what the spec says.
func follow(wf *batchv1.Workflow, f facts) plan {
	s, op := &wf.Status, f.operation
	s.OperationUID, s.StartTime = op.UID, op.Status.StartTime
	mirror(s.Tasks, op)
	s.Progress = progress(s.Tasks)
	if op.Status.Phase.Ended() {
		s.CompletionTime = op.Status.CompletionTime
		if wf.Spec.Terminate && endedByDeletion(op) {
			s.Phase, s.Message = batchv1.WorkflowStopped, terminated
			return plan{}
		}
		s.Phase, s.Message = phaseOfEnd(op), cmp.Or(taskgraph.Said(op.Status.Error), "it was stopped")
		if s.Phase == batchv1.WorkflowSucceeded {
			s.Message, s.Outputs = "", op.Status.Outputs
		}
		return plan{}
	}
	if wf.Spec.Terminate {
		s.Phase, s.Message = batchv1.WorkflowStopping, fmt.Sprintf("Operation %q is being deleted", op.Name)
		return plan{terminate: op}
	}
	var p plan
	if suspend := wf.Spec.Suspend || f.waiting != ""; op.Spec.Suspend != suspend {
		p.suspend = &suspend
	}
	if wf.Spec.Stop && !op.Spec.Cancel {
		p.cancel = op.Name
	}
	s.Phase, s.Message = phaseOf(wf, op), messageOf(op)
	if ready := conditions.Get(op, platformv1.ReadyCondition); ready != nil && platformv1.StopsRun(ready.Reason) {
		p.blocked = ready.Reason
	}
	if f.waiting != "" {
		s.Phase, s.Message, p.wake = batchv1.WorkflowPending, f.waiting, f.now.Add(semaphore.Poll)
	}
	return p
}

// endedByDeletion says whether an Operation ended since it was deleted: one with artifacts stays until they are
// removed.
func endedByDeletion(op *platformv1.Operation) bool {
	ready := conditions.Get(op, platformv1.ReadyCondition)
	return !op.DeletionTimestamp.IsZero() && ready != nil && ready.Reason == platformv1.ReasonDeleting
}

func phaseOfEnd(op *platformv1.Operation) batchv1.WorkflowPhase {
	switch op.Status.Phase {
	case platformv1.OperationSucceeded:
		return batchv1.WorkflowSucceeded
	case platformv1.OperationCancelled:
		return batchv1.WorkflowStopped
	}
	return batchv1.WorkflowFailed
}

// phaseOf is where a run is that has not ended.
func phaseOf(wf *batchv1.Workflow, op *platformv1.Operation) batchv1.WorkflowPhase {
	switch {
	case wf.Spec.Stop || op.Spec.Cancel:
		return batchv1.WorkflowStopping
	case wf.Spec.Suspend:
		return batchv1.WorkflowSuspended
	case op.Status.Phase == platformv1.OperationAwaitingApproval:
		return batchv1.WorkflowAwaitingApproval
	case op.Status.Phase == platformv1.OperationRunning:
		return batchv1.WorkflowRunning
	}
	return batchv1.WorkflowPending
}

// messageOf says what a run waits for.
func messageOf(op *platformv1.Operation) string {
	ready := conditions.Get(op, platformv1.ReadyCondition)
	if ready == nil || ready.Message == "" {
		return "waiting for the Operation to begin"
	}
	message := taskgraph.Said(ready.Message)
	if op.Status.Phase == platformv1.OperationAwaitingApproval {
		message += fmt.Sprintf("; that is said in Operation %q", op.Name)
	}
	return message
}

// mirror copies how far the steps are into the tasks.
func mirror(tasks []batchv1.TaskStatus, op *platformv1.Operation) {
	steps := map[string]*platformv1.StepStatus{}
	for i := range op.Status.Steps {
		steps[op.Status.Steps[i].Name] = &op.Status.Steps[i]
	}
	for i := range tasks {
		from := steps[tasks[i].Name]
		if from == nil {
			continue
		}
		tasks[i] = batchv1.TaskStatus{
			Name: from.Name, Phase: from.Phase, Message: taskgraph.Said(from.Message), Attempts: from.Attempts,
			StartTime: from.StartTime, CompletionTime: from.CompletionTime, Job: from.Outputs["job"],
			Operation: from.Outputs["operation"], Artifacts: from.Artifacts,
		}
		if items := from.Items; items != nil {
			tasks[i].Items = fmt.Sprintf("%d/%d", items.Succeeded, items.Total)
		}
	}
}

// progress is how many tasks have ended.
func progress(tasks []batchv1.TaskStatus) string {
	n := 0
	for i := range tasks {
		if p := tasks[i].Phase; p != platformv1.OperationPending && p != platformv1.OperationRunning {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(tasks))
}

// expire removes a Workflow whose time is over.
func expire(wf *batchv1.Workflow, f facts) plan {
	ttl, end := wf.Spec.TTLSecondsAfterFinished, wf.Status.CompletionTime
	if ttl == nil || end == nil {
		return plan{}
	}
	at := end.Add(time.Duration(*ttl) * time.Second)
	return plan{remove: !f.now.Before(at), wake: at}
}
