// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const waiting = `
tasks:
  - name: up
    wait:
      {apiVersion: apps/v1, kind: Deployment, name: web, condition: Available,
      outputs: {ready: 'string(object.status.readyReplicas)'}}
  - name: down
    wait:
      {apiVersion: apps/v1, kind: Deployment, name: web,
      until: 'object.status.conditions.exists(c, c.type == "Available" && c.status == "False")'}
  - name: counted
    wait: {apiVersion: apps/v1, kind: Deployment, name: web, until: object.status.readyReplicas == 1}
outputs: {ready: tasks.up.outputs.ready}
`

// says waits until a task is in a phase and has a message.
func (b *bench) says(wf *batchv1.Workflow, task string, phase platformv1.OperationPhase, message string) {
	b.Helper()
	testkit.WaitFor(b, env.Client, wf, fmt.Sprintf("task %s is %s: %s", task, phase, message), func() error {
		for _, one := range wf.Status.Tasks {
			if one.Name == task && one.Phase == phase && one.Message == message {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", wf.Status.Tasks)
	})
}

// deployment is one with a pod, which nobody runs.
func (b *bench) deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/tool:1"}}}}}}
}

// A task waits for an object, for its condition to be there, and for that to be True. What its expression lacks is in
// its message.
func TestTaskWaitsForTheConditionOfAnObject(t *testing.T) {
	b := newBench(t)
	b.allow("deployments",
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get"}})
	serve(t)
	wf := b.run("waits", waiting)
	b.says(wf, "up", platformv1.OperationRunning, "waiting for Deployment web to be there")
	web := b.deployment("web")
	b.create(web)
	const waits = "waiting for Deployment web to be as the template says"
	b.says(wf, "up", platformv1.OperationRunning, waits)
	b.says(wf, "down", platformv1.OperationRunning, waits+": until cannot be evaluated: no such key: conditions")
	b.says(wf, "counted", platformv1.OperationRunning, waits+": until cannot be evaluated: no such key: readyReplicas")
	available := func(status corev1.ConditionStatus, ready int32) {
		t.Helper()
		web.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: ready, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentAvailable, Status: status}}}
		if err := env.Client.Status().Update(t.Context(), web); err != nil {
			t.Fatal(err)
		}
	}
	available(corev1.ConditionFalse, 0)
	b.says(wf, "down", platformv1.OperationSucceeded, "")
	b.says(wf, "up", platformv1.OperationRunning, waits)
	available(corev1.ConditionTrue, 1)
	b.reaches(wf, batchv1.WorkflowSucceeded, "")
	if wf.Status.Outputs["ready"] != "1" || strings.Contains(tasks(wf), "Running") {
		t.Errorf("the outputs are %v, and the tasks are %s", wf.Status.Outputs, tasks(wf))
	}
}
