// SPDX-License-Identifier: Apache-2.0

// Package jobstate says how a Job with one pod stands, in the words of that pod.
package jobstate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// State is how a Job stands.
type State struct {
	// UID of it.
	UID types.UID
	// Phase is Running, Succeeded or Failed.
	Phase platformv1.OperationPhase
	// Message is what its container said last, and why it ended, or why there is none yet.
	Message string
	// Said is the termination message of its container as it is; empty while it has none.
	Said string
	// ExitCode is that of its container; 0 while it has none.
	ExitCode int32
	// Ended is when it did; zero while it runs.
	Ended time.Time
}

// Of reads the pods of a Job and says how it stands.
func Of(ctx context.Context, pods client.Reader, job *batchv1.Job) (State, error) {
	state := State{UID: job.UID, Phase: platformv1.OperationRunning}
	var why string
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			state.Phase, state.Ended = platformv1.OperationSucceeded, condition.LastTransitionTime.Time
		case condition.Type == batchv1.JobFailed:
			state.Phase, state.Ended, why = platformv1.OperationFailed, condition.LastTransitionTime.Time, condition.Message
		}
	}
	var list corev1.PodList
	if err := pods.List(ctx, &list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return state, fmt.Errorf("cannot list the pods of Job %q: %w", job.Name, err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; metav1.IsControlledBy(pod, job) {
			ended := endOf(pod)
			state.Message, state.Said, state.ExitCode = cmp.Or(saidBy(pod), state.Message), cmp.Or(ended.Message, state.Said), cmp.Or(ended.ExitCode, state.ExitCode)
		}
	}
	if why != "" && state.Message != "" {
		why += ": "
	}
	state.Message = why + state.Message
	return state, nil
}

// endOf is how the container of a pod ended; zero while it has not.
func endOf(pod *corev1.Pod) corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil {
			return *status.State.Terminated
		}
	}
	return corev1.ContainerStateTerminated{}
}

// saidBy is what the container of a pod left when it ended, or what keeps it from beginning.
func saidBy(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Terminated != nil && status.State.Terminated.ExitCode == 0:
			return status.State.Terminated.Message
		case status.State.Terminated != nil:
			ended := status.State.Terminated
			return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", ended.ExitCode, cmp.Or(ended.Message, ended.Reason)), ": ")
		case status.State.Waiting != nil && status.State.Waiting.Message != "":
			return status.State.Waiting.Reason + ": " + status.State.Waiting.Message
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return pod.Status.Message
}

// LastWord is why a Job has ended, in one line of so many characters at most. Whose pod was deleted has none of its own.
func (s *State) LastWord(most int) string {
	return cmp.Or(Tail(s.Message, most), "its pod is gone and has left no word: somebody deleted it, or its node is lost")
}

// Tail is the end of what a container said, in one line of so many characters at most.
func Tail(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return "…" + string(runes[len(runes)-most:])
	}
	return text
}
