// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// approvalStep waits until as many users have approved as the template wants. One who rejects is enough to fail it.
type approvalStep struct{}

func (approvalStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
	}
	message, v := r.text(t, t.Approval.Message, item{})
	if !v.done() {
		return v
	}
	author, decisions := r.op.Spec.Author, decisionsOf(r.op)
	if author == "" {
		return failedf("step %q needs somebody else than the author to approve, and spec.author is not set: create the "+
			"Operation with your user name there", t.Name)
	}
	if _, own := decisions[author]; own {
		return failedf("%s cannot approve his own Operation", author)
	}
	var by []string
	for _, user := range slices.Sorted(maps.Keys(decisions)) {
		if decisions[user] == platformv1.OperationRejected {
			return rejected(r.op.Spec.Approval, user, message)
		}
		by = append(by, user)
	}
	switch wanted := max(t.Approval.Count, 1); {
	case len(by) >= wanted:
		step.Outputs = map[string]string{"by": strings.Join(by, ", ")}
		return verdict{}
	case wanted == 1:
		return verdict{waiting: fmt.Sprintf("somebody else than %s to approve: %s", author, message), approval: yes}
	default:
		return verdict{waiting: fmt.Sprintf("%d users other than %s to approve, %d of whom have: %s", wanted, author, len(by),
			message), approval: yes}
	}
}

// unapproved says whether a step does not begin since an approval is asked for again that it needs by way of a step
// that was taken over from an earlier run. When nobody gives it, the step is skipped: its condition is about the run
// before.
func (r *run) unapproved(step *platformv1.StepStatus) bool {
	template := &r.facts.Template
	if step.Phase != platformv1.OperationPending || !template.Plain(step.Name) {
		return false
	}
	var before []string
	for i := range r.status.Steps {
		asked := &r.status.Steps[i]
		t, known := template.Step(asked.Name)
		if !known || t.Approval == nil || asked.Phase == platformv1.OperationSucceeded {
			continue
		}
		if before == nil {
			before = template.Before(step.Name)
		}
		switch {
		case !slices.Contains(before, asked.Name):
		case !ended(asked):
			return true
		case asked.Phase == platformv1.OperationFailed && r.doneBefore(before, asked.Name):
			step.Phase = platformv1.OperationSkipped
			return true
		}
	}
	return false
}

// doneBefore says whether one of some steps that needs another one had succeeded before the run began.
func (r *run) doneBefore(steps []string, needs string) bool {
	return slices.ContainsFunc(steps, func(name string) bool {
		step := r.find(name)
		return step.CompletionTime != nil && step.CompletionTime.Before(r.status.StartTime) &&
			slices.Contains(r.facts.Template.Before(name), needs)
	})
}

// rejected is the verdict of an approval that a user rejected, with his reason where he gave one. A decision is given
// once, so that it is not tried again.
func rejected(approval *platformv1.OperationApproval, user, message string) verdict {
	v := verdict{failed: fmt.Sprintf("%s rejected it: %s", user, message), final: yes}
	if approval != nil && approval.By == user && approval.Reason != "" {
		v.failed = fmt.Sprintf("%s rejected it since %q: %s", user, approval.Reason, message)
	}
	return v
}

// decisionsOf are all decisions about an Operation, by user.
func decisionsOf(op *platformv1.Operation) map[string]platformv1.OperationDecision {
	all := map[string]platformv1.OperationDecision{}
	maps.Copy(all, op.Spec.Approvals)
	if one := op.Spec.Approval; one != nil && all[one.By] != platformv1.OperationRejected {
		all[one.By] = one.Decision
	}
	return all
}
