// SPDX-License-Identifier: Apache-2.0

package jobstate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/podstart"
	"github.com/zeroinfra/platform-core/sdk/apply"
)

const (
	// StartPatience is how long after a Job was made its pod may be kept from starting. Then the Job is given up, so
	// that what waits for it fails with the reason and lets others go on: its deadline is for the work, and is hours. A
	// pod that nothing is known to stop, such as one that pulls a large image, is not given up.
	StartPatience = 5 * time.Minute
	// refusedLook is how old a Job without a pod is that never is given up, when it is asked whether the API server takes
	// its pod.
	refusedLook = 10 * time.Second
	// startLook is how often a pod that has yet to start is looked at.
	startLook = time.Minute
)

// awaitStart says of a Job that runs what keeps its pod from starting, and gives it up when that lasts.
func (j Jobs) awaitStart(ctx context.Context, job *batchv1.Job, pods []corev1.Pod, state *State) error {
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	if slices.ContainsFunc(pods, hasStarted) || job.DeletionTimestamp != nil || suspended {
		return nil
	}
	if given := givenUp(job); given != "" {
		// Kubernetes is about to end it.
		state.Message, state.Wake = given, startLook
		return nil
	}
	now := j.Now()
	left := job.CreationTimestamp.Add(StartPatience).Sub(now)
	state.Wake = startLook
	if left > 0 {
		state.Wake = min(left, startLook)
	}
	why := ""
	for i := range pods {
		if fault, _ := (podstart.Pod{Pod: &pods[i], Now: now}).Fault(); fault != nil {
			why, state.Reason = fault.Message, fault.Reason
		}
	}
	if len(pods) == 0 && (left <= 0 || j.NeverGivesUp && left < StartPatience-refusedLook) {
		var err error
		if why, state.Reason, err = j.refused(ctx, job); err != nil {
			return err
		}
	}
	if state.Message = cmp.Or(why, state.Message); why == "" || left > 0 || j.NeverGivesUp {
		return nil
	}
	state.Message = fmt.Sprintf("it was given up since its pod did not start within %s: %s", StartPatience, why)
	return j.giveUp(ctx, job, state.Message)
}

// hasStarted says whether a container of a pod runs or has run.
func hasStarted(pod corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
		return true
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil
	})
}

// refused is why the API server would not take the pod of a Job, such as for a ResourceQuota: Kubernetes says that in
// events alone. Both are empty when it would.
func (j Jobs) refused(ctx context.Context, job *batchv1.Job) (why, reason string, err error) {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = job.Namespace, job.Name+"-"
	err = j.Client.Create(ctx, pod, client.DryRunAll)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		reason = platformv1.ReasonForbidden
		if apply.ExceedsQuota(err) {
			reason = platformv1.ReasonQuotaExceeded
		}
		return fmt.Sprintf("the API server refuses it: %v: allow it, or make room in what that names", err), reason, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot try the pod of Job %q: %w", job.Name, err)
	}
	return "", "", nil
}

// giveUp has Kubernetes end a Job now: it deletes the pod, so that nothing begins later, and says that the Job failed.
// Why is noted on the Job, whatever becomes of the operator.
func (j Jobs) giveUp(ctx context.Context, job *batchv1.Job, why string) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": job.UID, "annotations": map[string]string{platformv1.GivenUpAnnotation: why}},
		"spec":     map[string]any{"activeDeadlineSeconds": 1},
	})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name},
	}
	err = j.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("cannot give up Job %q: %w", job.Name, err)
	}
	return nil
}

// givenUp is why a Job was given up; empty for one that was not.
func givenUp(job *batchv1.Job) string { return job.Annotations[platformv1.GivenUpAnnotation] }

// unstarted is the result of a mover that did not start, in the form in which movers say theirs.
func unstarted(why string) string {
	text, err := json.Marshal(mover.Result{Reason: platformv1.ReasonMoverNotStarted, Message: why})
	if err != nil {
		panic(err) // It is two texts.
	}
	return string(text)
}
