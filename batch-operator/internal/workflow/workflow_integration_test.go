// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	batchv1api "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// reaches waits until a Workflow has a phase and a message that holds a text.
func (b *bench) reaches(wf *batchv1.Workflow, phase batchv1.WorkflowPhase, message string) {
	b.Helper()
	testkit.WaitFor(b, env.Client, wf, string(phase)+": "+message, func() error {
		if wf.Status.Phase != phase || !strings.Contains(wf.Status.Message, message) {
			return fmt.Errorf("it says %+v", wf.Status)
		}
		return nil
	})
	if err := testkit.StatusLint(wf); err != nil {
		b.Error(err)
	}
}

// tasks are the phases of the tasks, as a text.
func tasks(wf *batchv1.Workflow) string {
	var all []string
	for _, task := range wf.Status.Tasks {
		all = append(all, fmt.Sprintf("%s=%s", task.Name, task.Phase))
	}
	return strings.Join(all, " ")
}

// job waits for the Job of a task of the present attempt.
func (b *bench) job(wf *batchv1.Workflow, task string) *batchv1api.Job {
	b.Helper()
	var job *batchv1api.Job
	testkit.Eventually(b, "a Job of the task "+task, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(wf), wf); err != nil {
			return err
		}
		job = b.jobs()[wf.Status.Operation+"-"+task]
		if job == nil {
			return fmt.Errorf("there are %d Jobs, and %s", len(b.jobs()), tasks(wf))
		}
		return nil
	})
	return job
}

// finish waits for the Job of a task of the present attempt, and ends it.
func (b *bench) finish(wf *batchv1.Workflow, task string, condition batchv1api.JobConditionType) {
	b.Helper()
	if err := env.EndJob(b.Context(), b.job(wf, task), condition); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) edit(wf *batchv1.Workflow, change func()) {
	b.Helper()
	if err := testkit.Edit(b.Context(), env.Client, wf, change); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, Data: data}
}

const dag = `
parameters: [{name: mode, default: fast}]
tasks:
  - name: load
    script: {image: 'example/tool:1', source: load}
  - name: look
    wait: {apiVersion: v1, kind: ConfigMap, name: config, until: 'has(object.data)', outputs: {mode: object.data.mode}}
  - name: fast
    dependsOn: [{name: look}]
    when: tasks.look.outputs.mode == parameters.mode
    container: {image: 'example/tool:1', args: ['${tasks.look.outputs.mode}']}
  - name: slow
    dependsOn: [{name: look}]
    when: tasks.look.outputs.mode != parameters.mode
    container: {image: 'example/tool:1'}
  - name: release
    dependsOn: [{name: load}, {name: fast, phases: [Succeeded, Skipped]}]
    approval: {reason: 'publish ${tasks.look.outputs.mode}'}
  - name: publish
    dependsOn: [{name: release}]
    apply:
      manifest: >-
        {apiVersion: v1, kind: ConfigMap, metadata: {name: published}, data: {by: "${tasks.release.outputs.by}"}}
  - name: clean
    dependsOn: [{name: slow, phases: [Skipped]}, {name: publish}]
    delete: {apiVersion: v1, kind: ConfigMap, name: config}
onExit:
  - name: told
    after: Succeeded
    apply:
      manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: told}, data: {clean: "${tasks.clean.phase}"}}'
`

// The operator is killed while a pod runs, and no attempt is made twice.
func TestTasksRunInTheirOrderAlthoughTheOperatorIsKilled(t *testing.T) {
	b := newBench(t)
	kill := serve(t)
	wf := b.run("dag", dag)
	b.reaches(wf, batchv1.WorkflowRunning, "")
	testkit.Eventually(t, "a Job", func(context.Context) error {
		if len(b.jobs()) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	kill()
	b.create(b.configMap("config", map[string]string{"mode": "fast"}))
	serve(t)
	b.finish(wf, "fast", batchv1api.JobComplete)
	b.finish(wf, "load", batchv1api.JobComplete)
	b.reaches(wf, batchv1.WorkflowAwaitingApproval, `somebody else than ada to approve: publish fast`)
	if wf.Status.Progress != "4/8" {
		t.Errorf("the progress is %s: %s", wf.Status.Progress, tasks(wf))
	}
	op := &platformv1.Operation{}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: wf.Status.Operation}, op)
	if err != nil {
		t.Fatal(err)
	}
	approve := func(by string) error {
		before := op.DeepCopy()
		op.Spec.Approval = &platformv1.OperationApproval{By: by, Decision: platformv1.OperationApproved}
		err := b.person(by).Patch(t.Context(), op, client.MergeFrom(before))
		if err != nil {
			*op = *before
		}
		return err
	}
	testkit.Refused(t, approve("ada"), "the author of an Operation cannot approve it")
	testkit.Refused(t, approve("bob"), "")
	b.reaches(wf, batchv1.WorkflowSucceeded, "")
	if got := tasks(wf); got != "load=Succeeded look=Succeeded fast=Succeeded slow=Skipped release=Succeeded "+
		"publish=Succeeded clean=Succeeded told=Succeeded" {
		t.Errorf("the tasks are %s", got)
	}
	if wf.Status.Progress != "8/8" || wf.Status.Attempt != 1 || !conditions.IsTrue(wf, batchv1.SucceededCondition) ||
		!conditions.IsTrue(wf, platformv1.ReadyCondition) {
		t.Errorf("the status is %+v", wf.Status)
	}
	if jobs := b.jobs(); len(jobs) != 2 || wf.Status.Tasks[0].Job != wf.Status.Operation+"-load" ||
		wf.Status.Tasks[0].Attempts != 1 {
		t.Errorf("there are %d Jobs, and the task has %+v", len(jobs), wf.Status.Tasks[0])
	}
	for name, want := range map[string]string{"published": "bob", "told": "Succeeded"} {
		object := b.configMap(name, nil)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.Data["by"]+
			object.Data["clean"] != want {
			t.Errorf("ConfigMap %s has %v: %v", name, object.Data, err)
		}
	}
}

const failing = `
ttlSecondsAfterFinished: 3600
tasks:
  - {name: other, script: {image: 'example/tool:1', source: other}}
  - {name: a, script: {image: 'example/tool:1', source: a}}
  - {name: b, dependsOn: [{name: a}], script: {image: 'example/tool:1', source: b}}
  - name: mend
    dependsOn: [{name: a, phases: [Failed]}]
    apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: mended}}'}
onExit:
  - {name: alarm, after: Failed, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: alarm}}'}}
`

func TestFailedWorkflowGoesOnWithARetryAndIsDeletedAfterItsTime(t *testing.T) {
	b := newBench(t)
	serve(t)
	wf := b.run("failing", failing)
	b.finish(wf, "a", batchv1api.JobFailed)
	b.finish(wf, "other", batchv1api.JobComplete)
	b.reaches(wf, batchv1.WorkflowFailed, `task "a" failed: job `)
	if got := tasks(wf); got != "other=Succeeded a=Failed b=Skipped mend=Succeeded alarm=Succeeded" {
		t.Errorf("the tasks are %s", got)
	}
	first := wf.Status.Operation
	b.edit(wf, func() { wf.Annotations = map[string]string{batchv1.RetryAnnotation: "1"} })
	testkit.WaitFor(t, env.Client, wf, "another attempt", func() error {
		if wf.Status.Attempt != 2 {
			return fmt.Errorf("it says %+v", wf.Status)
		}
		return nil
	})
	b.finish(wf, "a", batchv1api.JobComplete)
	b.finish(wf, "b", batchv1api.JobComplete)
	b.reaches(wf, batchv1.WorkflowSucceeded, "")
	if got := tasks(wf); got != "other=Succeeded a=Succeeded b=Succeeded mend=Skipped alarm=Skipped" {
		t.Errorf("after the retry the tasks are %s", got)
	}
	if jobs := b.jobs(); len(jobs) != 4 || wf.Status.Operation == first || wf.Status.Tasks[0].Job != first+"-other" {
		t.Errorf("there are %d Jobs, and the status is %+v", len(jobs), wf.Status)
	}
	b.edit(wf, func() { wf.Spec.TTLSecondsAfterFinished = new(int32(0)) })
	testkit.WaitGone(t, env.Client, wf)
}

func TestWorkflowPausesResumesAndStops(t *testing.T) {
	b := newBench(t)
	serve(t)
	wf := b.run("paused", `
suspend: true
tasks:
  - {name: ask, approval: {reason: go on}}
  - {name: look, wait: {apiVersion: v1, kind: ConfigMap, name: config, until: 'true'}}
  - {name: run, dependsOn: [{name: look}], script: {image: 'example/tool:1', source: run}}
onExit:
  - {name: end, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: end}}'}}
`)
	b.reaches(wf, batchv1.WorkflowSuspended, "waiting for spec.suspend to be false")
	if wf.Status.Operation != "" {
		t.Errorf("Operation %q was created", wf.Status.Operation)
	}
	b.edit(wf, func() { wf.Spec.Suspend = false })
	b.reaches(wf, batchv1.WorkflowRunning, "")
	b.edit(wf, func() { wf.Spec.Suspend = true })
	b.reaches(wf, batchv1.WorkflowSuspended, "")
	b.create(b.configMap("config", nil))
	testkit.WaitFor(t, env.Client, wf, "the end of what was under way", func() error {
		if got := tasks(wf); got != "ask=Running look=Succeeded run=Pending end=Pending" || wf.Status.Tasks[2].Attempts != 0 {
			return fmt.Errorf("the tasks are %s", got)
		}
		return nil
	})
	b.edit(wf, func() { wf.Spec.Suspend = false })
	testkit.WaitFor(t, env.Client, wf, "the next task", func() error {
		if got := tasks(wf); got != "ask=Running look=Succeeded run=Running end=Pending" {
			return fmt.Errorf("the tasks are %s", got)
		}
		return nil
	})
	b.finish(wf, "run", batchv1api.JobComplete)
	b.reaches(wf, batchv1.WorkflowAwaitingApproval, "go on")
	b.edit(wf, func() { wf.Spec.Stop = true })
	b.reaches(wf, batchv1.WorkflowStopped, "it was stopped")
	if got := tasks(wf); got != "ask=Cancelled look=Succeeded run=Succeeded end=Succeeded" {
		t.Errorf("the tasks are %s", got)
	}
	unbegun := b.run("unbegun", "suspend: true\nstop: true\ntasks: [{name: a, http: {url: 'http://x'}}]")
	b.reaches(unbegun, batchv1.WorkflowStopped, "it was stopped before it began")
}

// A run that is terminated ends without onExit, whatever it waits for; its status stays, and it can be tried again.
func TestWorkflowIsTerminated(t *testing.T) {
	b := newBench(t)
	serve(t)
	wf := b.run("ended", `
tasks:
  - {name: look, wait: {apiVersion: v1, kind: ConfigMap, name: config, until: 'true'}}
  - {name: ask, dependsOn: [{name: look}], approval: {reason: go on}}
onExit:
  - {name: end, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: end}}'}}
`)
	b.create(b.configMap("config", nil))
	b.reaches(wf, batchv1.WorkflowAwaitingApproval, "go on")
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: wf.Namespace, Name: wf.Status.Operation}}
	b.edit(wf, func() { wf.Spec.Terminate = true })
	b.reaches(wf, batchv1.WorkflowStopped, "it was terminated")
	testkit.WaitGone(t, env.Client, op)
	if got := tasks(wf); !strings.Contains(got, "look=Succeeded") || !strings.Contains(got, "end=Pending") {
		t.Errorf("the tasks are %s", got)
	}
	b.edit(wf, func() {
		wf.Spec.Terminate, wf.Annotations = false, map[string]string{batchv1.RetryAnnotation: "once"}
	})
	b.reaches(wf, batchv1.WorkflowAwaitingApproval, "go on")
	if wf.Status.Operation == op.Name {
		t.Errorf("the retry is Operation %q again", op.Name)
	}
	unbegun := b.run("unbegun", "suspend: true\nterminate: true\ntasks: [{name: a, http: {url: 'http://x'}}]")
	b.reaches(unbegun, batchv1.WorkflowStopped, "it was stopped before it began")
}

func TestDeletedOperationIsNotCreatedAgain(t *testing.T) {
	b := newBench(t)
	serve(t)
	wf := b.run("deleted", "tasks: [{name: look, wait: {apiVersion: v1, kind: ConfigMap, name: none, until: 'true'}}]")
	b.reaches(wf, batchv1.WorkflowRunning, "")
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: wf.Status.Operation}}
	if err := env.Client.Delete(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	b.reaches(wf, batchv1.WorkflowFailed, "was deleted before it ended")
}

// A run that has ended is repeated by another Workflow that names it, with arguments of its own, and stays as it is.
func TestRunThatHasEndedIsRepeated(t *testing.T) {
	b := newBench(t)
	serve(t)
	first := b.run("first", `
parameters: [{name: day, default: monday}]
tasks:
  - {name: write, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "${parameters.day}"}}'}}
  - {name: load, dependsOn: [{name: write}], script: {image: 'example/tool:1', source: load}}
outputs: {day: parameters.day}
`)
	b.finish(first, "load", batchv1api.JobFailed)
	b.reaches(first, batchv1.WorkflowFailed, `task "load" failed: job `)
	before := first.Status.DeepCopy()
	again := b.run("again", "templateFrom: {name: first}\narguments: {day: friday}")
	b.finish(again, "load", batchv1api.JobComplete)
	b.reaches(again, batchv1.WorkflowSucceeded, "")
	if got := tasks(again); got != "write=Succeeded load=Succeeded" || again.Status.Outputs["day"] != "friday" {
		t.Errorf("the tasks are %s, and the outputs %v", got, again.Status.Outputs)
	}
	written := b.configMap("friday", nil)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(written), written); err != nil {
		t.Error(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil ||
		!equality.Semantic.DeepEqual(first.Status, *before) || len(b.jobs()) != 2 {
		t.Errorf("the first one has %+v, and there are %d Jobs: %v", first.Status, len(b.jobs()), err)
	}
}

func TestWorkflowHasItsTasksFromAnother(t *testing.T) {
	b := newBench(t)
	serve(t)
	wf := b.run("day", "templateFrom: {name: daily}\narguments: {name: day, count: '3'}")
	b.reaches(wf, batchv1.WorkflowPending, `spec.templateFrom: there is no Workflow "daily" in this namespace`)
	template := b.run("daily", `
templateOnly: true
parameters: [{name: name}, {name: count, type: int}]
tasks:
  - name: write
    apply:
      manifest: >-
        {apiVersion: v1, kind: ConfigMap, metadata: {name: "${parameters.name}"},
        data: {count: "${parameters.count}"}}
`)
	b.reaches(template, batchv1.WorkflowIsTemplate, "")
	b.reaches(wf, batchv1.WorkflowSucceeded, "")
	written := b.configMap("day", nil)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(written), written); err != nil ||
		written.Data["count"] != "3" {
		t.Errorf("it wrote %v: %v", written.Data, err)
	}
	for name, c := range map[string]struct{ spec, want string }{
		"missing": {"templateFrom: {name: daily}\narguments: {count: '3'}",
			`spec.arguments: parameter "name" has no default and needs an argument`},
		"wrong": {"templateFrom: {name: daily}\narguments: {name: x, count: many}",
			`spec.arguments[count] is "many": it must be of type int`},
		"unknown": {"templateFrom: {name: daily}\narguments: {name: x, count: '3', day: x}",
			`spec.arguments[day]: there is no such parameter: there are name, count`},
		"twice": {"templateFrom: {name: day}", `Workflow "day" has its tasks from Workflow "daily": name that one`},
		"cycle": {"tasks: [{name: a, dependsOn: [{name: b}], http: {url: 'http://x'}}, {name: b, dependsOn: [{name: a}], " +
			"http: {url: 'http://x'}}]",
			"spec.tasks: tasks depend on each other in a cycle: a depends on b depends on a"},
		"output": {"tasks: [{name: a, http: {url: 'http://x'}}, {name: b, dependsOn: [{name: a}], when: " +
			"'tasks.a.outputs.none == \"\"', http: {url: 'http://x'}}]",
			"spec.tasks[b].when is not a valid expression"},
		"undeclared": {"tasks: [{name: a, http: {url: 'http://x'}}, {name: b, when: 'tasks.a.phase == \"Failed\"', http: " +
			"{url: 'http://x'}}]",
			"spec.tasks[b].when is not a valid expression"},
	} {
		refused := b.run("refused-"+name, c.spec)
		b.reaches(refused, batchv1.WorkflowPending, c.want)
		if !conditions.IsTrue(refused, platformv1.StalledCondition) || refused.Status.Operation != "" {
			t.Errorf("%s: the status is %+v", name, refused.Status)
		}
	}
}
