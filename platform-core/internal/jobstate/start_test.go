// SPDX-License-Identifier: Apache-2.0

package jobstate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// made is when the Jobs of these tests were.
var made = time.Unix(1e9, 0)

func testJob() *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mover-1", UID: "1"}}
	job.CreationTimestamp = metav1.NewTime(made)
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "mover"}}
	return job
}

// podOf is the pod of a Job, with a status.
func podOf(job *batchv1.Job, status corev1.PodStatus) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x"}, Status: status}
	pod.Labels = map[string]string{batchv1.JobNameLabel: job.Name}
	owner := metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	if pod.Status.Phase == "" {
		pod.Status.Phase = corev1.PodPending
	}
	return pod
}

func unschedulable(message string) corev1.PodStatus {
	return corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}}}
}

func containerIn(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "mover", Image: "mover:1", State: state}}}
}

// A Job whose pod is kept from starting is given up after a while, with the words of who keeps it.
func TestAJobWhosePodDoesNotStartIsGivenUp(t *testing.T) {
	const late = StartPatience + time.Second
	taint := unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: db}.")
	backOff := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "mover:1"`}
	noImage := containerIn(corev1.ContainerState{Waiting: backOff})
	pulls := containerIn(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
	runs := containerIn(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	quota := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("exceeded quota: few, requested: pods=1"))
	policy := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("violates PodSecurity"))
	annotated := func(job *batchv1.Job) { job.Annotations = map[string]string{platformv1.GivenUpAnnotation: "no"} }
	suspended := func(job *batchv1.Job) { job.Spec.Suspend = new(true) }
	for name, test := range map[string]struct {
		after   time.Duration
		status  *corev1.PodStatus
		refuses error
		job     func(*batchv1.Job)
		never   bool
		reason  string
		says    string
		wake    time.Duration
		given   bool
	}{
		"no node yet": {after: time.Second, status: &taint, says: "no node for pod mover-1-x: 0/1",
			reason: platformv1.ReasonPodUnschedulable, wake: startLook},
		"no node, soon due": {after: StartPatience - time.Second, status: &taint, says: "taint",
			reason: platformv1.ReasonPodUnschedulable, wake: time.Second},
		"no node": {after: late, status: &taint, reason: platformv1.ReasonPodUnschedulable, wake: startLook, given: true,
			says: "within 5m0s: no node for pod mover-1-x: 0/1 nodes are available: 1 node(s) had untolerated taint " +
				"{dedicated: db}"},
		"no image": {after: late, status: &noImage, reason: platformv1.ReasonImageUnavailable, wake: startLook, given: true,
			says: `container mover cannot get image "mover:1" (ImagePullBackOff)`},
		"a quota": {after: late, refuses: quota, says: "exceeded quota: few", reason: platformv1.ReasonQuotaExceeded,
			wake: startLook, given: true},
		"no node, of a task": {after: late, status: &taint, never: true, says: "no node for pod mover-1-x: 0/1",
			reason: platformv1.ReasonPodUnschedulable, wake: startLook},
		"a quota, of a task": {after: time.Minute, refuses: quota, never: true, says: "exceeded quota: few",
			reason: platformv1.ReasonQuotaExceeded, wake: startLook},
		"a policy, of a task": {after: time.Minute, refuses: policy, never: true, says: "violates PodSecurity",
			reason: platformv1.ReasonForbidden, wake: startLook},
		"a quota, so far": {after: time.Minute, refuses: quota, wake: startLook},
		"no pod yet":      {after: late, wake: startLook},
		"a large image":   {after: late, status: &pulls, wake: startLook},
		"runs":            {after: late, status: &runs},
		"suspended":       {after: late, status: &taint, job: suspended},
		"given up":        {after: late, status: &taint, job: annotated, says: "no", wake: startLook},
	} {
		t.Run(name, func(t *testing.T) {
			job := testJob()
			if test.job != nil {
				test.job(job)
			}
			objects := []client.Object{job}
			if test.status != nil {
				objects = append(objects, podOf(job, *test.status))
			}
			c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
					if len(options) != 1 || options[0] != client.DryRunAll {
						t.Errorf("it makes a pod: %v", options)
					}
					return test.refuses
				}}).Build()
			now := func() time.Time { return made.Add(test.after) }
			state, err := Jobs{Live: c, Client: c, Now: now, NeverGivesUp: test.never}.Look(t.Context(), job)
			says := strings.Contains(state.Message, test.says) && (state.Message == "") == (test.says == "")
			if err != nil || state.Phase != platformv1.OperationRunning || state.Wake != test.wake || !says ||
				state.Reason != test.reason {
				t.Errorf("it is %+v, %v", state, err)
			}
			live := &batchv1.Job{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(job), live); err != nil {
				t.Fatal(err)
			}
			ended := live.Spec.ActiveDeadlineSeconds != nil && *live.Spec.ActiveDeadlineSeconds == 1
			if ended != test.given || test.given && live.Annotations[platformv1.GivenUpAnnotation] != state.Message {
				t.Errorf("the Job has the deadline %v and says %q", live.Spec.ActiveDeadlineSeconds, live.Annotations)
			}
		})
	}
}

// What was given up ends with the reason, and what its container said comes before that.
func TestTheResultOfAJobThatWasGivenUp(t *testing.T) {
	job := testJob()
	job.Annotations = map[string]string{platformv1.GivenUpAnnotation: "it was given up: no node"}
	const late = "Job was active longer than specified deadline"
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: late}}
	state := stateOf(job, nil)
	result := state.Result()
	if state.Phase != platformv1.OperationFailed || state.Message != "it was given up: no node" ||
		result.Reason != platformv1.ReasonMoverNotStarted ||
		result.Message != state.Message || IsFinal(result.Reason) {
		t.Errorf("it is %+v, and %+v", state, result)
	}
	full := &corev1.ContainerStateTerminated{ExitCode: 1, Message: `{"reason":"Full","message":"no room"}`}
	said := containerIn(corev1.ContainerState{Terminated: full})
	if state = stateOf(job, []corev1.Pod{*podOf(job, said)}); state.Result().Reason != "Full" {
		t.Errorf("it is %+v", state.Result())
	}
	delete(job.Annotations, platformv1.GivenUpAnnotation)
	if state = stateOf(job, nil); state.Message != late {
		t.Errorf("it says %q", state.Message)
	}
}
