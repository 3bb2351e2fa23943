// SPDX-License-Identifier: Apache-2.0

package scheduling

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// SpecOf returns what an Operation of a schedule asks for.
func SpecOf(app *platformv1.Application, spec *platformv1.Schedule) platformv1.OperationSpec {
	asked := &spec.Operation
	return platformv1.OperationSpec{
		TemplateRef: asked.TemplateRef,
		TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application",
			Name: app.Name},
		Parameters:              maps.Clone(asked.Parameters),
		Timeout:                 asked.Timeout,
		TTLSecondsAfterFinished: asked.TTLSecondsAfterFinished,
		Retry:                   asked.Retry.DeepCopy(),
		Force:                   asked.Force,
	}
}

// Operation returns the Operation of a run, complete but for its owner.
func Operation(app *platformv1.Application, run Run) *platformv1.Operation {
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.Namespace, Name: run.Name,
			Labels: map[string]string{
				platformv1.DomainLabel:      app.Labels[platformv1.DomainLabel],
				platformv1.ApplicationLabel: app.Name,
				platformv1.ScheduleLabel:    run.Schedule.Name,
				platformv1.TriggerLabel:     string(platformv1.TriggerSchedule),
				platformv1.ManagedByLabel:   platformv1.ManagedBy,
			},
			Annotations: map[string]string{platformv1.ScheduledForAnnotation: run.Time.Format(time.RFC3339)},
		},
		Spec: SpecOf(app, run.Schedule),
	}
}
