// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"fmt"
	"strings"
	"testing"

	batchv1api "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// podIs writes the status of a pod, as a kubelet does.
func (b *bench) podIs(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	b.Helper()
	before, container := pod.DeepCopy(), pod.Spec.Containers[0]
	pod.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{
		{Name: container.Name, Image: container.Image, State: state}}}
	if err := env.Client.Status().Patch(b.Context(), pod, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// waitsBecause waits until a Workflow that runs has a reason, and a message that holds a text.
func (b *bench) waitsBecause(wf *batchv1.Workflow, reason, text string) {
	b.Helper()
	testkit.WaitFor(b, env.Client, wf, reason+": "+text, func() error {
		ready := conditions.Get(wf, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, text) ||
			wf.Status.Message != ready.Message || !conditions.IsTrue(wf, platformv1.ReconcilingCondition) {
			return fmt.Errorf("it says %+v", wf.Status)
		}
		return nil
	})
	if err := testkit.StatusLint(wf); err != nil {
		b.Error(err)
	}
}

// The reason of a Workflow is that of the task whose pod does not start, whatever others wait for, until it starts. So
// is that of a task of another Workflow that it runs.
func TestWorkflowSaysWhatKeepsThePodOfATaskFromStarting(t *testing.T) {
	const own = `
tasks:
  - {name: look, wait: {apiVersion: v1, kind: ConfigMap, name: config, until: 'true'}}
  - {name: load, script: {image: 'example/tool:1', source: load}}
`
	for title, c := range map[string]struct {
		spec string
		job  func(b *bench, wf *batchv1.Workflow) *batchv1api.Job
		says string
	}{
		"its own": {own, func(b *bench, wf *batchv1.Workflow) *batchv1api.Job { return b.job(wf, "load") },
			`task "load": waiting for job `},
		"of another": {"tasks: [{name: nested, workflow: {templateFrom: {name: other}}}]",
			func(b *bench, wf *batchv1.Workflow) *batchv1api.Job { return b.job(wf, "nested-load") },
			`task "nested": waiting for Operation `},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t)
			serve(t)
			b.run("other", "templateOnly: true\n"+strings.Replace(own, "name: config", "name: other", 1))
			wf := b.run("stuck", c.spec)
			job := c.job(b, wf)
			pod := testkit.PodOfJob(job)
			b.create(pod)
			b.podIs(pod, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ErrImagePull", Message: "pull access denied"}})
			b.waitsBecause(wf, platformv1.ReasonImageUnavailable, c.says)
			const image = `cannot get image "example/tool:1" (ImagePullBackOff: pull access denied)`
			if !strings.Contains(wf.Status.Message, "pod "+pod.Name) || !strings.Contains(wf.Status.Message, image) {
				t.Errorf("the message is %q", wf.Status.Message)
			}
			b.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			b.waitsBecause(wf, platformv1.ReasonProgressing, "waiting for ")
			b.create(b.configMap("config", nil), b.configMap("other", nil))
			if err := env.EndJob(t.Context(), job, batchv1api.JobComplete); err != nil {
				t.Fatal(err)
			}
			b.reaches(wf, batchv1.WorkflowSucceeded, "")
		})
	}
}
