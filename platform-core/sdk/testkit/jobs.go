// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndJob has a Job end with this condition, JobComplete or JobFailed, in the words that the controller of Jobs has in
// the version of the API server.
func (e *Env) EndJob(ctx context.Context, job *batchv1.Job, condition batchv1.JobConditionType) error {
	criteria, err := e.Since(meetsCriteria)
	if err != nil {
		return err
	}
	now := metav1.Now()
	job.Status.StartTime = &now
	conditions := []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	switch {
	case condition == batchv1.JobFailed:
		job.Status.Failed = 1
	case !criteria:
		conditions = []batchv1.JobConditionType{batchv1.JobComplete}
	default:
		conditions = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	}
	if condition == batchv1.JobComplete {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	}
	for _, one := range conditions {
		job.Status.Conditions = append(job.Status.Conditions,
			batchv1.JobCondition{Type: one, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "Played"})
	}
	// The controller of Jobs tries again where somebody has changed the object meanwhile: so no version is asked for.
	job.ResourceVersion = ""
	return e.Client.Status().Update(ctx, job)
}

// PodOfJob is a pod that the controller of Jobs would make for a Job. The API server chooses its name.
func PodOfJob(job *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, GenerateName: job.Name + "-",
		Labels:          map[string]string{batchv1.JobNameLabel: job.Name},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}},
		Spec: *job.Spec.Template.Spec.DeepCopy()}
}
