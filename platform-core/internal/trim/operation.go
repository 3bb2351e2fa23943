// SPDX-License-Identifier: Apache-2.0

package trim

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// Operation is the transform of caches of Operations. One that has ended is a record, of which there may be thousands:
// it leaves what it was, on what, how it ended and when, which generation its edits made, and of which term it tells.
// Whoever needs more of a record reads it live.
func Operation(obj any) (any, error) {
	op, ok := obj.(*platformv1.Operation)
	if !ok {
		return withoutManagedFields(obj)
	}
	op.ManagedFields = nil
	if !opsflow.Finished(op) {
		return op, nil
	}
	spec := platformv1.OperationSpec{TemplateRef: op.Spec.TemplateRef, TargetRef: op.Spec.TargetRef,
		TTLSecondsAfterFinished: op.Spec.TTLSecondsAfterFinished}
	if term, known := op.Spec.Parameters[opsflow.ParameterTerm]; known {
		spec.Parameters = platformv1.Parameters{opsflow.ParameterTerm: term}
	}
	op.Spec = spec
	status := op.Status
	op.Status = platformv1.OperationStatus{
		ObservedGeneration: status.ObservedGeneration, Phase: status.Phase, Conditions: status.Conditions,
		Application: status.Application,
		Plugin:      status.Plugin, StartTime: status.StartTime, CompletionTime: status.CompletionTime,
		Trigger:   status.Trigger,
		Artifacts: status.Artifacts,
	}
	for i := range op.Status.Conditions {
		op.Status.Conditions[i].Message = ""
	}
	for _, step := range status.Steps {
		if generation, edited := step.Outputs[opsflow.OutputGeneration]; edited {
			op.Status.Steps = append(op.Status.Steps, platformv1.StepStatus{
				Name: step.Name, Phase: step.Phase, Outputs: map[string]string{opsflow.OutputGeneration: generation}})
		}
	}
	return op, nil
}
