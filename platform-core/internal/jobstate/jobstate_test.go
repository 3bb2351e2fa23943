// SPDX-License-Identifier: Apache-2.0

package jobstate

import (
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A Job that is given up, and whose pods are yet to be gone, has not ended.
func TestAJobHasEndedOnceItsConditionSaysSo(t *testing.T) {
	for kind, want := range map[batchv1.JobConditionType]bool{batchv1.JobComplete: true, batchv1.JobFailed: true,
		batchv1.JobFailureTarget: false, batchv1.JobSuspended: false} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mover"}}}}}}
		job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		if got := Ended(job); got != want {
			t.Errorf("with %s it has ended: %t, want %t", kind, got, want)
		}
		job.Status.Conditions[0].Status = corev1.ConditionFalse
		if Ended(job) {
			t.Errorf("it has ended though %s is False", kind)
		}
	}
}

// A Job is done when its own container is, whatever a container does that somebody added to its pod.
func TestAContainerThatNeverEndsHoldsNothingUp(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	ended := func(name string, code int32, said string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: said,
				FinishedAt: at}}}
	}
	runs := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	failed := []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue,
		Message: "Job was active longer than specified deadline", LastTransitionTime: at}}
	for name, test := range map[string]struct {
		conditions []batchv1.JobCondition
		containers []corev1.ContainerStatus
		want       State
	}{
		"both run": {nil, []corev1.ContainerStatus{runs("proxy"), runs("mover")},
			State{Phase: platformv1.OperationRunning}},
		"the added one has ended": {nil, []corev1.ContainerStatus{ended("proxy", 1, "no route"), runs("mover")},
			State{Phase: platformv1.OperationRunning}},
		"its own is done": {nil, []corev1.ContainerStatus{runs("proxy"), ended("mover", 0, "1 MiB")},
			State{Phase: platformv1.OperationSucceeded, Message: "1 MiB", Said: "1 MiB", Ended: at.Time}},
		"its own has failed": {nil, []corev1.ContainerStatus{ended("mover", 3, "no bucket"), runs("proxy")},
			State{Phase: platformv1.OperationFailed, Message: "exit code 3: no bucket", Said: "no bucket", ExitCode: 3,
				Ended: at.Time}},
		"the added one was ended at last": {failed,
			[]corev1.ContainerStatus{ended("proxy", 137, ""), ended("mover", 0, "1 MiB")},
			State{Phase: platformv1.OperationSucceeded, Message: "1 MiB", Said: "1 MiB", Ended: at.Time}},
		"the time is over": {failed, nil, State{Phase: platformv1.OperationFailed,
			Message: "Job was active longer than specified deadline", Ended: at.Time}},
	} {
		job := &batchv1.Job{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "mover"}}}}},
			Status: batchv1.JobStatus{Conditions: test.conditions}}
		var pods []corev1.Pod
		if test.containers != nil {
			pods = []corev1.Pod{{Status: corev1.PodStatus{ContainerStatuses: test.containers}}}
		}
		if got := stateOf(job, pods); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// A container after those of the Job that failed never starts. What others added to the pod does not count.
func TestFailedInitContainerSaysWhyTheJobFailed(t *testing.T) {
	job := &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "fetch"}, {Name: "task"}},
		Containers:     []corev1.Container{{Name: "keep"}}}}},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}
	ended := func(name string, code int32, said string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: said}}}
	}
	pods := []corev1.Pod{{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{
		ended("fetch", 0, "{}"), ended("task", 7, "no rows"), ended("proxy", 137, "killed")}}}}
	want := State{Phase: platformv1.OperationFailed, Message: "exit code 7: no rows", ExitCode: 7, Failed: "task",
		Inits: map[string]string{"fetch": "{}", "task": "no rows"}}
	if got := stateOf(job, pods); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
