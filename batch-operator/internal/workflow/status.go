// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// report is the outcome of a plan, and fills in what the status says of it. o is an outcome of acting that says more
// than the plan; Done for none.
func report(wf *batchv1.Workflow, p plan, o outcome.Outcome) outcome.Outcome {
	s := &wf.Status
	if p.invalid != nil {
		o = outcome.Stalled(platformv1.ReasonInvalidSpec, p.invalid.Error())
		if s.Phase != batchv1.WorkflowIsTemplate && !finished(s) {
			s.Phase = batchv1.WorkflowPending
		}
		s.Message = p.invalid.Error()
	}
	if o.Kind() == outcome.KindDone {
		o = outcomeOf(s, p.blocked)
	}
	reportEnd(wf)
	return o
}

// outcomeOf is that of a phase. blocked is the reason for which the pod of a task does not start, if any.
func outcomeOf(s *batchv1.WorkflowStatus, blocked string) outcome.Outcome {
	switch s.Phase {
	case batchv1.WorkflowSucceeded:
		return outcome.DoneAs("Succeeded", "every task succeeded or was skipped")
	case batchv1.WorkflowIsTemplate:
		return outcome.DoneAs("Template", "other Workflows can name it in templateFrom")
	case batchv1.WorkflowFailed:
		return outcome.Stalled(platformv1.ReasonOperationFailed, s.Message)
	case batchv1.WorkflowStopped:
		return outcome.Stalled(platformv1.ReasonStopped, s.Message)
	case batchv1.WorkflowSuspended:
		return outcome.Waiting(platformv1.ReasonSuspended, s.Message)
	}
	return outcome.Waiting(cmp.Or(blocked, platformv1.ReasonProgressing),
		cmp.Or(s.Message, "waiting for the Operation to begin"))
}

// reportEnd says in the condition Succeeded how the attempt ended.
func reportEnd(wf *batchv1.Workflow) {
	c := metav1.Condition{Type: batchv1.SucceededCondition, Status: metav1.ConditionUnknown, Reason: "Running",
		Message: "the run has not ended"}
	switch s := &wf.Status; s.Phase {
	case batchv1.WorkflowIsTemplate:
		return
	case batchv1.WorkflowSucceeded:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Succeeded", "every task succeeded or was skipped"
	case batchv1.WorkflowFailed, batchv1.WorkflowStopped:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(s.Phase), s.Message
	}
	conditions.Set(wf, c)
}
