// SPDX-License-Identifier: Apache-2.0

// Package jobstate says how a Job with one pod stands, in the words of that pod.
package jobstate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	// Follows is its annotation of that name (platformv1.FollowsAnnotation); empty without.
	Follows string
	// Phase is Running, Succeeded or Failed.
	Phase platformv1.OperationPhase
	// Message is what its container said last, and why it ended, or why there is none yet.
	Message string
	// Reason names what keeps its pod from starting, as platformv1.StopsRun knows it; empty for nothing.
	Reason string
	// Said is the termination message of its container as it is; empty while it has none.
	Said string
	// ExitCode is that of its container, or of the init container that failed; 0 while it has none.
	ExitCode int32
	// Inits are the termination messages of its init containers that have ended, as they are, by name. Failed is the name
	// of the one that failed; empty for none.
	Inits  map[string]string
	Failed string
	// Ended is when it did; zero while it runs.
	Ended time.Time
	// Wake is how soon to look again at a Job whose pod has yet to start, since no watch tells why it does not; 0 for
	// never.
	Wake time.Duration
}

// Jobs looks at Jobs.
type Jobs struct {
	// Live reads pods as they are at this moment.
	Live client.Reader
	// Client gives up Jobs whose pods do not start.
	Client client.Client
	// Now tells the time.
	Now func() time.Time
	// NeverGivesUp leaves a pod that does not start to the deadline of its Job. It is for tasks of users, which may wait
	// for a node or for room in a quota.
	NeverGivesUp bool
}

// Look says how a Job stands, and gives it up when its pod does not start (start.go), unless it never does.
func (j Jobs) Look(ctx context.Context, job *batchv1.Job) (State, error) {
	pods, err := j.podsOf(ctx, job)
	if err != nil {
		return State{UID: job.UID, Phase: platformv1.OperationRunning}, err
	}
	state := stateOf(job, pods)
	if state.Phase == platformv1.OperationRunning {
		err = j.awaitStart(ctx, job, pods, &state)
	}
	return state, err
}

// Ended says whether a Job has succeeded or failed, whatever its pods are still at.
func Ended(job *batchv1.Job) bool { return stateOf(job, nil).Phase != platformv1.OperationRunning }

// podsOf are the pods of a Job.
func (j Jobs) podsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	var list corev1.PodList
	named := client.MatchingLabels{batchv1.JobNameLabel: job.Name}
	if err := j.Live.List(ctx, &list, client.InNamespace(job.Namespace), named); err != nil {
		return nil, fmt.Errorf("cannot list the pods of Job %q: %w", job.Name, err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) }), nil
}

// stateOf says how a Job with these pods stands.
func stateOf(job *batchv1.Job, pods []corev1.Pod) State {
	state := State{UID: job.UID, Follows: job.Annotations[platformv1.FollowsAnnotation],
		Phase: platformv1.OperationRunning}
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
	own := ownContainer(job)
	for i := range pods {
		ended := endOf(&pods[i], own)
		state.Message, state.Said = cmp.Or(saidBy(&pods[i], own), state.Message), cmp.Or(ended.Message, state.Said)
		state.ExitCode = cmp.Or(ended.ExitCode, state.ExitCode)
		noteInits(&state, job, &pods[i])
		// A container that somebody added to the pod, such as the proxy of a mesh, may never end: the Job is judged by its
		// own.
		if ended.FinishedAt.IsZero() || state.Phase == platformv1.OperationSucceeded {
			continue
		}
		state.Phase, state.Ended = platformv1.OperationSucceeded, ended.FinishedAt.Time
		if ended.ExitCode != 0 {
			state.Phase = platformv1.OperationFailed
		} else {
			why = ""
		}
	}
	if given := givenUp(job); given != "" && state.Phase == platformv1.OperationFailed && state.Said == "" {
		state.Message, state.Said = given, unstarted(given)
		return state
	}
	if why != "" && state.Message != "" {
		why += ": "
	}
	state.Message = why + state.Message
	return state
}

// noteInits adds to a state how the init containers of a pod ended that are the Job's: somebody may have added others.
// The own container of a pod never starts after one that failed.
func noteInits(state *State, job *batchv1.Job, pod *corev1.Pod) {
	for _, status := range pod.Status.InitContainerStatuses {
		ended := status.State.Terminated
		if ended == nil || !slices.ContainsFunc(job.Spec.Template.Spec.InitContainers,
			func(c corev1.Container) bool { return c.Name == status.Name }) {
			continue
		}
		if state.Inits == nil {
			state.Inits = map[string]string{}
		}
		if state.Inits[status.Name] = ended.Message; ended.ExitCode != 0 {
			state.Failed, state.ExitCode, state.Message = status.Name, ended.ExitCode, lastOf(ended)
		}
	}
}

// lastOf is how a container ended that failed, in words.
func lastOf(ended *corev1.ContainerStateTerminated) string {
	return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", ended.ExitCode, cmp.Or(ended.Message, ended.Reason)), ": ")
}

// ownContainer is the name of the container that a Job was made for; the pod may have more.
func ownContainer(job *batchv1.Job) string {
	if containers := job.Spec.Template.Spec.Containers; len(containers) > 0 {
		return containers[0].Name
	}
	return ""
}

// endOf is how a container of a pod ended; zero while it has not.
func endOf(pod *corev1.Pod, container string) corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container && status.State.Terminated != nil {
			return *status.State.Terminated
		}
	}
	return corev1.ContainerStateTerminated{}
}

// saidBy is what a container of a pod left when it ended, or what its node says of the pod.
func saidBy(pod *corev1.Pod, container string) string {
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.Name != container:
		case status.State.Terminated != nil && status.State.Terminated.ExitCode == 0:
			return status.State.Terminated.Message
		case status.State.Terminated != nil:
			return lastOf(status.State.Terminated)
		}
	}
	return pod.Status.Message
}

// LastWord is why a Job has ended, in one line of so many characters at most. Whose pod was deleted has none of its
// own.
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
