// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"k8s.io/apimachinery/pkg/api/equality"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// NeedsRecord says whether a decision has to be on record before its effect is brought about. How far the items of a
// step are need not be where the effect is about the Job of a task or the Operation of an inline template: those are
// only ever created, under a name that follows from the attempt, which is on record. So many items cost few writes.
func NeedsRecord(op *platformv1.Operation, d Decision) bool {
	switch {
	case d.Effect == nil:
		return true
	case d.Effect.Job != nil && d.Effect.Job.Task != nil, d.Effect.Child != nil && d.Effect.Child.Spec.Template != "":
		return !equality.Semantic.DeepEqual(withoutItems(&op.Status), withoutItems(&d.Status))
	}
	return !equality.Semantic.DeepEqual(op.Status, d.Status)
}

// UnderWay are the keys of the effects of the steps, and of their items, that are under way on record.
func UnderWay(op *platformv1.Operation) map[string]struct{} {
	r, keys := &run{op: op}, map[string]struct{}{}
	for i := range op.Status.Steps {
		step := &op.Status.Steps[i]
		switch {
		case step.Phase != platformv1.OperationRunning:
			continue
		case len(step.Targets) == 0 && step.Items == nil:
			keys[r.key(step, "")] = struct{}{}
		}
		for j := range step.Targets {
			if step.Targets[j].Phase == platformv1.OperationRunning {
				keys[r.key(step, step.Targets[j].Name)] = struct{}{}
			}
		}
	}
	return keys
}

// withoutItems is a status without how far the items of steps are.
func withoutItems(status *platformv1.OperationStatus) *platformv1.OperationStatus {
	status = status.DeepCopy()
	status.Progress = ""
	for i := range status.Steps {
		step := &status.Steps[i]
		if step.Phase != platformv1.OperationRunning || len(step.Targets) == 0 && step.Items == nil {
			continue
		}
		step.Message = ""
		if step.Items != nil {
			step.Items, step.Targets = nil, nil
		}
		for j := range step.Targets {
			step.Targets[j].Phase, step.Targets[j].Job, step.Targets[j].Operation = "", "", ""
		}
	}
	return status
}
