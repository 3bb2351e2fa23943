// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"fmt"
	"testing"

	batchv1api "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const daily = `
templateOnly: true
parameters: [{name: day}]
tasks:
  - name: load
    script: {image: 'example/tool:1', source: load, env: [{name: DAY, value: '${parameters.day}'}]}
  - name: note
    dependsOn: [{name: load}]
    apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "${parameters.day}"}}'}
outputs: {job: tasks.load.outputs.job, day: parameters.day}
`

const weekly = `
tasks:
  - name: one
    workflow: {templateFrom: {name: daily}, arguments: {day: monday}}
  - name: days
    dependsOn: [{name: one}]
    forEach: {items: [tuesday, friday], parallelism: 2}
    workflow: {templateFrom: {name: daily}, arguments: {day: 'after-${tasks.one.outputs.day}-${each}'}}
outputs: {first: tasks.one.outputs.job}
`

// endJobs ends each Job that has not ended, and returns how many there are.
func (b *bench) endJobs() int {
	b.Helper()
	jobs := b.jobs()
	for _, job := range jobs {
		if len(job.Status.Conditions) > 0 {
			continue
		}
		if err := env.EndJob(b.Context(), job, batchv1api.JobComplete); err != nil {
			b.Fatal(err)
		}
	}
	return len(jobs)
}

// The template comes after the Workflow, the operator is killed while a nested task runs, and each of them has one Job.
func TestWorkflowRunsOthersAsTasks(t *testing.T) {
	b := newBench(t)
	kill := serve(t)
	wf := b.run("weekly", weekly)
	b.reaches(wf, batchv1.WorkflowPending, `spec.tasks[one].workflow.templateFrom: there is no Workflow "daily"`)
	b.reaches(b.run("daily", daily), batchv1.WorkflowIsTemplate, "")
	testkit.Eventually(t, "a Job of the nested task", func(context.Context) error {
		if jobs := b.jobs(); len(jobs) != 1 {
			return fmt.Errorf("there are %d", len(jobs))
		}
		return nil
	})
	kill()
	serve(t)
	testkit.WaitFor(t, env.Client, wf, "the end", func() error {
		b.endJobs()
		if wf.Status.Phase != batchv1.WorkflowSucceeded {
			return fmt.Errorf("it says %+v", wf.Status)
		}
		return nil
	})
	one, days := wf.Status.Tasks[0], wf.Status.Tasks[1]
	if one.Operation != wf.Status.Operation+"-one" || days.Items != "2/2" || wf.Status.Outputs["first"] != one.Operation+
		"-load" || wf.Status.Progress != "2/2" {
		t.Errorf("the status is %+v", wf.Status)
	}
	if jobs := b.jobs(); len(jobs) != 3 {
		t.Errorf("there are %d Jobs", len(jobs))
	}
	for _, name := range []string{"monday", "after-monday-tuesday", "after-monday-friday"} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name},
			b.configMap(name, nil)); err != nil {
			t.Error(err)
		}
	}
}

func TestSuspendAndStopReachNestedTasks(t *testing.T) {
	b := newBench(t)
	serve(t)
	b.run("daily", daily)
	wf := b.run("weekly", weekly)
	b.reaches(wf, batchv1.WorkflowRunning, "")
	b.edit(wf, func() { wf.Spec.Suspend = true })
	nested := &platformv1.Operation{}
	nested.Namespace, nested.Name = b.namespace, wf.Status.Operation+"-one"
	testkit.WaitFor(t, env.Client, nested, "suspend", func() error {
		if !nested.Spec.Suspend {
			return fmt.Errorf("it is not suspended")
		}
		return nil
	})
	b.edit(wf, func() { wf.Spec.Stop = true })
	testkit.Eventually(t, "the delete of the Job", func(context.Context) error {
		for _, job := range b.jobs() {
			if job.DeletionTimestamp.IsZero() {
				return fmt.Errorf("Job %q is not deleted", job.Name)
			}
		}
		return nil
	})
	// Its pod has ended: nobody else is there to say so.
	b.endJobs()
	b.reaches(wf, batchv1.WorkflowStopped, "it was stopped")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(nested), nested); err != nil ||
		nested.Status.Phase != platformv1.OperationCancelled {
		t.Errorf("the nested Operation is %+v: %v", nested.Status, err)
	}
}

func TestCycleOfWorkflowsStalls(t *testing.T) {
	b := newBench(t)
	serve(t)
	first := b.run("first", "templateOnly: true\ntasks: [{name: a, workflow: {templateFrom: {name: second}}}]")
	b.reaches(first, batchv1.WorkflowIsTemplate, `there is no Workflow "second"`)
	b.run("second", "templateOnly: true\ntasks: [{name: a, workflow: {templateFrom: {name: first}}}]")
	wf := b.run("run", "tasks: [{name: a, workflow: {templateFrom: {name: first}}}]")
	b.reaches(wf, batchv1.WorkflowPending, "spec.tasks: Workflows run each other in a cycle: first runs second runs first")
	b.reaches(first, batchv1.WorkflowIsTemplate, "Workflows run each other in a cycle")
	if !conditions.IsTrue(wf, platformv1.StalledCondition) || wf.Status.Operation != "" {
		t.Errorf("the status is %+v", wf.Status)
	}
}
