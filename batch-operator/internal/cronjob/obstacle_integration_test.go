// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"strings"
	"testing"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// podOf makes the pod of a Job with what a scheduler or a kubelet says of it.
func (p *place) podOf(job *kubebatchv1.Job, status corev1.PodStatus) *corev1.Pod {
	p.Helper()
	pod := testkit.PodOfJob(job)
	p.create(pod)
	p.podSays(pod, status)
	return pod
}

// podSays writes the status of a pod.
func (p *place) podSays(pod *corev1.Pod, status corev1.PodStatus) {
	p.Helper()
	before := pod.DeepCopy()
	pod.Status = status
	if err := env.Client.Status().Patch(p.Context(), pod, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

// containerOf is the status of a pod whose container is in a state.
func containerOf(job *kubebatchv1.Job, state corev1.ContainerState) corev1.PodStatus {
	container := job.Spec.Template.Spec.Containers[0]
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
		{Name: container.Name, Image: container.Image, State: state}}}
}

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// blocked waits until a CronJob says of its only run why the pod does not start, in status.active and in a condition,
// and that runs begin all the same.
func (p *place) blocked(cj *batchv1.CronJob, reason, text string) {
	p.Helper()
	p.says(cj, batchv1.RunBlockedCondition, reason, text)
	c := conditions.Get(cj, batchv1.RunBlockedCondition)
	if active := cj.Status.Active; c.Status != metav1.ConditionTrue || len(active) != 1 ||
		c.Message != "Operation "+active[0].Operation+": "+active[0].Message {
		p.Errorf("the condition is %+v, and the runs are %+v", c, active)
	}
	if !conditions.IsTrue(cj, platformv1.ReadyCondition) {
		p.Errorf("the conditions are %+v", cj.Status.Conditions)
	}
}

// goesOn waits until nothing is said of the run of a CronJob any more, which is still under way.
func (p *place) goesOn(cj *batchv1.CronJob) {
	p.Helper()
	p.waits(cj, "its run goes on", func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 && s.Active[0].Message == "" && conditions.Get(cj, batchv1.RunBlockedCondition) == nil
	})
}

// What keeps the pod of a run from starting is said until the pod starts, whatever it is.
func TestCronJobSaysWhatKeepsThePodOfARunFromStarting(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for title, c := range map[string]struct {
		state  func(*kubebatchv1.Job) corev1.PodStatus
		reason string
		says   string
	}{
		"image": {func(job *kubebatchv1.Job) corev1.PodStatus {
			return containerOf(job, waitingFor("ErrImagePull", "pull access denied"))
		}, platformv1.ReasonImageUnavailable,
			`cannot get image "example/tool:1" (ImagePullBackOff: pull access denied)`},
		"secret": {func(job *kubebatchv1.Job) corev1.PodStatus {
			return containerOf(job, waitingFor("CreateContainerConfigError", `secret "login" not found`))
		}, platformv1.ReasonProcessFailing, `CreateContainerConfigError: secret "login" not found`},
		"node": {func(*kubebatchv1.Job) corev1.PodStatus {
			return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: "0/3 nodes are available: 3 Insufficient memory."}}}
		}, platformv1.ReasonPodUnschedulable, "0/3 nodes are available: 3 Insufficient memory"},
	} {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t)
			p.serve()
			cj := p.script("stuck", nil)
			p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
			p.reach(1, cj)
			job := p.job(cj, 1)
			pod := p.podOf(job, c.state(job))
			p.blocked(cj, c.reason, c.says)
			begin, end := "waiting for job "+job.Name+" to end: ", cj.Status.Active[0].Message
			if !strings.HasPrefix(end, begin) || !strings.Contains(end, "pod "+pod.Name) {
				t.Errorf("the message is %q", end)
			}
			started := containerOf(job, running)
			started.Phase = corev1.PodRunning
			p.podSays(pod, started)
			p.goesOn(cj)
			p.finish(cj, 1, kubebatchv1.JobComplete)
			p.wantCounts(cj, 1, 1, 0, 0)
		})
	}
}

// A pod that a quota keeps from being created has no words of its own.
func TestCronJobSaysWhatKeepsThePodOfARunFromBeingCreated(t *testing.T) {
	p := newPlace(t)
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: none}}
	p.create(quota)
	// The controller of quotas is not there to do it.
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if err := env.Client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.serve()
	cj := p.script("stuck", nil)
	p.waits(cj, "is settled", func(s batchv1.CronJobStatus) bool { return s.SettledTime != nil })
	p.reach(1, cj)
	job := p.job(cj, 1)
	p.blocked(cj, platformv1.ReasonQuotaExceeded, "exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0")
	if err := env.Client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.goesOn(cj)
	p.edit(cj, func() { cj.Spec.TimeZone = "Europe/Berln" })
	p.podOf(job, containerOf(job, waitingFor("ErrImagePull", "pull access denied")))
	p.waits(cj, "says so though its spec is invalid", func(s batchv1.CronJobStatus) bool {
		c := conditions.Get(cj, batchv1.RunBlockedCondition)
		return c != nil && c.Reason == platformv1.ReasonImageUnavailable &&
			conditions.IsTrue(cj, platformv1.StalledCondition) && strings.Contains(s.Active[0].Message, "example/tool:1")
	})
	p.finish(cj, 1, kubebatchv1.JobFailed)
	p.edit(cj, func() { cj.Spec.TimeZone = "UTC" })
	p.waits(cj, "says nothing of a run that has ended", func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 0 && conditions.Get(cj, batchv1.RunBlockedCondition) == nil
	})
	testkit.WaitForReady(t, env.Client, cj)
}
