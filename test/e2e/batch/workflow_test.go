// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestWorkflow has the tasks of Workflows run in real pods, call a real server and act on real objects. The parts share
// a namespace.
func TestWorkflow(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "workflow"))
	for name, part := range map[string]func(*place){
		"TasksOfEveryType": tasksOfEveryType, "PodsAreAsAsked": podsAreAsAsked, "PlacedAndOwned": placedAndOwned,
		"FailureAndRetry": failureAndRetry, "StopAndSuspend": stopAndSuspend, "Terminated": terminated,
		"Rejected": rejected, "ApprovedByTwo": approvedByTwo, "Template": templated, "Broken": brokenThings,
		"TakeTurns": takeTurns,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(&place{p.In(t)})
		})
	}
}

// everyType is a Workflow with a task of each type, in an order that follows from its dependencies. One of them runs
// doubling.
func everyType(p *place) string {
	return `
author: ` + p.CurrentUser() + `
parameters: [{name: day, pattern: '[0-9-]+', default: "2026-01-31"}]
tasks:
  - name: count
    script: {` + shell + `, source: 'echo "rows=3" >/dev/termination-log', outputs: {rows: '=~"^[0-9]+$"'}}
  - name: double
    dependsOn: [{name: count}]
    workflow: {templateFrom: {name: doubling}, arguments: {of: '${tasks.count.outputs.rows}'}}
  - name: ask
    http: {method: POST, url: '` + p.url("/private") +
		`', headers: [{name: Authorization, prefix: 'Bearer ', secret: {name: login, key: token}}],
      check: response.json.state == "ok", outputs: {id: response.json.id}}
  - name: store
    dependsOn: [{name: double}, {name: ask}]
    apply:
      manifest: |
        {apiVersion: v1, kind: ConfigMap, metadata: {name: stored}, data: {
          rows: '${tasks.count.outputs.rows}', twice: '${tasks.double.outputs.twice}', id: '${tasks.ask.outputs.id}',
          day: '${parameters.day}'}}
  - name: look
    dependsOn: [{name: store}]
    wait: {apiVersion: v1, kind: ConfigMap, name: stored, until: 'object.data.rows == "3"',
      outputs: {id: object.data.id}}
  - name: clear
    delete: {apiVersion: v1, kind: ConfigMap, name: old}
  - name: release
    dependsOn: [{name: look}]
    approval: {reason: '${tasks.look.outputs.id} has ${tasks.count.outputs.rows} rows'}
  - name: each
    dependsOn: [{name: release}]
    forEach: {items: [a, b, c], parallelism: 2}
    container: {` + shell + `, command: [echo, 'item ${each}']}
  - name: never
    dependsOn: [{name: count}]
    when: int(tasks.count.outputs.rows) > 3
    script: {` + shell + `, source: exit 1}
onExit:
  - {name: note, after: Succeeded, http: {url: '` + p.url("/noted") + `'}}
  - {name: alarm, after: Failed, http: {url: '` + p.url("/alarm") + `'}}
`
}

// doubling is a template that others run.
const doubling = `
templateOnly: true
parameters: [{name: of, type: int}]
tasks:
  - name: double
    script: {` + shell + `, env: [{name: OF, value: '${parameters.of}'}],
      source: 'echo "twice=$((OF + OF))" >/dev/termination-log', outputs: {twice: '=~"^[0-9]+$"'}}
outputs: {twice: tasks.double.outputs.twice}
`

// tasksOfEveryType runs a Workflow with a task of each type.
func tasksOfEveryType(p *place) {
	p.Create(configMapOf("old", nil))
	p.phase(p.workflow("doubling", doubling), batchv1.WorkflowIsTemplate)
	wf := p.workflow("every", everyType(p))
	p.phase(wf, batchv1.WorkflowAwaitingApproval)
	if message := p.task(wf, "release").Message; !strings.Contains(message, "7 has 3 rows") {
		p.Errorf("who approves reads %q", message)
	}
	p.ExpectRefused(p.approve(wf, p.CurrentUser()),
		"the author of an Operation cannot approve it")
	if err := p.approve(wf, "bob@example.com"); err != nil {
		p.Fatal(err)
	}
	p.ended(wf, batchv1.WorkflowSucceeded)
	p.wantTasks(wf, map[string]platformv1.OperationPhase{
		"count": platformv1.OperationSucceeded, "double": platformv1.OperationSucceeded,
		"release": platformv1.OperationSucceeded, "each": platformv1.OperationSucceeded,
		"never": platformv1.OperationSkipped, "note": platformv1.OperationSucceeded, "alarm": platformv1.OperationSkipped,
	})
	if data, err := p.configMap("stored"); err != nil || data["rows"] != "3" || data["twice"] != "6" ||
		data["id"] != "7" || data["day"] != "2026-01-31" {
		p.Errorf("what was stored is %v: %v", data, err)
	}
	if _, err := p.configMap("old"); framework.ErrUnlessNotFound(err) != nil {
		p.Errorf("the ConfigMap was not deleted: %v", err)
	}
	if calls := p.calls("/private"); len(calls) != 1 || !strings.Contains(calls[0], "POST") ||
		!strings.Contains(calls[0], "auth=Bearer "+token) {
		p.Errorf("the calls are %q", calls)
	}
	if noted, alarms := p.calls("/noted"), p.calls("/alarm"); len(noted) != 1 || len(alarms) != 0 {
		p.Errorf("at the end there were the calls %q and %q", noted, alarms)
	}
	if task := p.task(wf, "each"); task.Items != "3/3" || len(p.jobs(wf.Status.Operation)) != 4 {
		p.Errorf("the items are %s, and the Jobs %d: want 3/3 and 4", task.Items, len(p.jobs(wf.Status.Operation)))
	}
	if nested := p.task(wf, "double").Operation; nested == "" || len(p.jobs(nested)) != 1 {
		p.Errorf("the task that runs another Workflow has Operation %q with %d Jobs", nested, len(p.jobs(nested)))
	}
	logs := p.Kubectl("logs", "-l", platformv1.OperationLabel+"="+wf.Status.Operation+","+platformv1.StepLabel+"=each")
	for _, item := range []string{"item a", "item b", "item c"} {
		if !strings.Contains(logs, item) {
			p.Errorf("the logs are %q: there is no %q", logs, item)
		}
	}
	p.noSecret(wf.Status.Operation)
}

// podsAreAsAsked has a pod look at its variables, volumes, user and arguments.
func podsAreAsAsked(p *place) {
	p.Create(configMapOf("settings", map[string]string{"colour": "green"}))
	wf := p.workflow("pods", `
tasks:
  - name: look
    script:
      `+strings.ReplaceAll(shell, ", ", "\n      ")+`
      env: [{name: COLOUR, configMap: {name: settings, key: colour}}, {name: LOGIN, secret: {name: login, key: token}},
        {name: PLAIN, value: x}]
      mounts: [{path: /settings, configMap: settings, readOnly: true}, {path: /scratch, scratch: 16Mi},
        {path: /login, secret: login}]
      resources: {requests: {cpu: 20m, memory: 32Mi}, limits: {memory: 64Mi}}
      args: [first]
      source: |
        test "$COLOUR" = green; test "$LOGIN" = "$(cat /login/token)"; test "$PLAIN" = x; test "$1" = first
        test "$(cat /settings/colour)" = green; echo text >/scratch/file; echo text >/tmp/file
        test "$(id -u)" = 999; if echo no >/file; then exit 1; fi
        test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token
`)
	p.ended(wf, batchv1.WorkflowSucceeded)
}

// failureAndRetry has a task fail twice. Once what it lacks is there, the retry goes on with it.
func failureAndRetry(p *place) {
	p.Create(configMapOf("gate", map[string]string{"open": "no"}))
	wf := p.workflow("gated", `
tasks:
  - {name: first, script: {`+shell+`, source: 'true'}}
  - name: gate
    dependsOn: [{name: first}]
    retry: {limit: 1, backoff: 1s}
    script: {`+shell+
		`, env: [{name: OPEN, configMap: {name: gate, key: open}}], source: 'echo "the gate is $OPEN"; test "$OPEN" = yes'}
  - {name: after, dependsOn: [{name: gate}], http: {url: '`+p.url("/after")+`'}}
  - {name: instead, dependsOn: [{name: gate, phases: [Failed]}], http: {url: '`+p.url("/instead")+`'}}
  - {name: broken, onFailure: Continue, http: {url: '`+p.url("/broken")+`'}}
onExit:
  - {name: alarm, after: Failed, http: {url: '`+p.url("/gate-alarm")+`'}}
`)
	p.ended(wf, batchv1.WorkflowFailed)
	first := wf.Status.Operation
	p.wantTasks(wf, map[string]platformv1.OperationPhase{
		"first": platformv1.OperationSucceeded, "gate": platformv1.OperationFailed, "after": platformv1.OperationSkipped,
		"instead": platformv1.OperationSucceeded, "broken": platformv1.OperationFailed,
		"alarm": platformv1.OperationSucceeded,
	})
	if gate := p.task(wf, "gate"); gate.Attempts != 2 || len(p.jobs(first)) != 3 {
		p.Errorf("the gate has %d attempts, and there are %d Jobs: want 2 and 3", gate.Attempts, len(p.jobs(first)))
	}
	if message := p.task(wf, "broken").Message; !strings.Contains(message, "503") {
		p.Errorf("the call says %q", message)
	}
	gate := configMapOf("gate", nil)
	p.MustGet("gate", gate)
	gate.Data["open"] = "yes"
	if err := framework.Cluster.Client.Update(p.Ctx, gate); err != nil {
		p.Fatal(err)
	}
	p.annotate(wf, batchv1.RetryAnnotation, "1")
	p.ended(wf, batchv1.WorkflowSucceeded)
	if wf.Status.Operation == first || len(p.jobs(wf.Status.Operation)) != 1 || len(p.calls("/after")) != 1 ||
		len(p.calls("/instead")) != 1 {
		p.Errorf("the retry has %d Jobs, and calls %q", len(p.jobs(wf.Status.Operation)),
			slices.Concat(p.calls("/after"), p.calls("/instead")))
	}
}

// stopAndSuspend holds a run between two tasks, and ends it in the second one.
func stopAndSuspend(p *place) {
	wf := p.workflow("held", `
tasks:
  - {name: first, script: {`+shell+`, source: sleep 10}}
  - {name: long, dependsOn: [{name: first}], script: {`+shell+`, source: 'trap "exit 0" TERM; sleep 900 & wait'}}
onExit:
  - {name: end, http: {url: '`+p.url("/held-end")+`'}}
`)
	p.phase(wf, batchv1.WorkflowRunning)
	p.change(wf, "suspend: true")
	p.Eventually(framework.SettleTimeout, "the first task ends, and the run is suspended", func() error {
		p.MustGet(wf.Name, wf)
		return expect(wf.Status.Phase == batchv1.WorkflowSuspended &&
			p.task(wf, "first").Phase == platformv1.OperationSucceeded, wf.Status)
	})
	if jobs := p.jobs(wf.Status.Operation); len(jobs) != 1 {
		p.Errorf("there are %d Jobs while the run is suspended", len(jobs))
	}
	p.change(wf, "suspend: false")
	p.Eventually(framework.SettleTimeout, "the second task runs", func() error {
		p.MustGet(wf.Name, wf)
		return expect(p.task(wf, "long").Job != "" || len(p.jobs(wf.Status.Operation)) == 2, wf.Status)
	})
	p.change(wf, "stop: true")
	p.ended(wf, batchv1.WorkflowStopped)
	p.noPods(wf.Status.Operation)
	if calls := p.calls("/held-end"); len(calls) != 1 {
		p.Errorf("the calls at the end are %q", calls)
	}
}

// terminated ends a run at once: its pods go, its record stays, and nothing runs at the end.
func terminated(p *place) {
	wf := p.workflow("cut", `
tasks:
  - {name: first, script: {`+shell+`, source: 'true'}}
  - {name: long, dependsOn: [{name: first}], script: {`+shell+`, source: 'trap "exit 0" TERM; sleep 900 & wait'}}
onExit:
  - {name: end, http: {url: '`+p.url("/cut-end")+`'}}
`)
	p.Eventually(framework.SettleTimeout, "the second task runs", func() error {
		p.MustGet(wf.Name, wf)
		return expect(wf.Status.Operation != "" && len(p.jobs(wf.Status.Operation)) == 2, wf.Status)
	})
	p.change(wf, "terminate: true")
	p.ended(wf, batchv1.WorkflowStopped)
	p.noPods(wf.Status.Operation)
	p.Eventually(framework.RemovalTimeout, "the Operation is gone", func() error {
		return framework.ErrUnlessNotFound(p.Get(wf.Status.Operation, &platformv1.Operation{}))
	})
	if first := p.task(wf, "first"); first.Phase != platformv1.OperationSucceeded ||
		wf.Status.Message != "it was terminated" {
		p.Errorf("it says %q, and the first task is %+v", wf.Status.Message, first)
	}
	if calls := p.calls("/cut-end"); len(calls) != 0 {
		p.Errorf("the calls at the end are %q", calls)
	}
}

// rejected has somebody say no and why, and what depends on that is left out.
func rejected(p *place) {
	wf := p.workflow("rejected", `
author: `+p.CurrentUser()+`
tasks:
  - {name: ask, approval: {reason: go on}}
  - {name: go, dependsOn: [{name: ask}], http: {url: '`+p.url("/rejected")+`'}}
`)
	p.phase(wf, batchv1.WorkflowAwaitingApproval)
	if err := p.reject(wf, "bob@example.com", "not on a Friday"); err != nil {
		p.Fatal(err)
	}
	p.ended(wf, batchv1.WorkflowFailed)
	if !strings.Contains(wf.Status.Message, `bob@example.com rejected it since "not on a Friday": `) ||
		len(p.calls("/rejected")) != 0 {
		p.Errorf("it says %q, and calls %q", wf.Status.Message, p.calls("/rejected"))
	}
}

// approvedByTwo waits until two users have approved, of whom none is the author.
func approvedByTwo(p *place) {
	wf := p.workflow("two", `
author: `+p.CurrentUser()+`
tasks:
  - {name: ask, approval: {reason: go on, approvals: 2}}
  - name: go
    dependsOn: [{name: ask}]
    when: tasks.ask.outputs.by == "bob@example.com, eve@example.com"
    http: {url: '`+p.url("/two")+`'}
`)
	const bob, eve, approved = "bob@example.com", "eve@example.com", platformv1.OperationApproved
	p.phase(wf, batchv1.WorkflowAwaitingApproval)
	p.ExpectRefused(p.decideAsOne(wf, p.CurrentUser(), p.CurrentUser(), approved),
		"the author of an Operation cannot approve it")
	p.ExpectRefused(p.decideAsOne(wf, bob, eve, approved), "each user writes under his own name")
	if err := p.decideAsOne(wf, bob, bob, approved); err != nil {
		p.Fatal(err)
	}
	p.Eventually(framework.SettleTimeout, "one of two has approved", func() error {
		p.MustGet(wf.Name, wf)
		return expect(wf.Status.Phase == batchv1.WorkflowAwaitingApproval &&
			strings.Contains(p.task(wf, "ask").Message, "1 of whom have"), wf.Status)
	})
	if err := p.decideAsOne(wf, eve, eve, approved); err != nil {
		p.Fatal(err)
	}
	p.ended(wf, batchv1.WorkflowSucceeded)
	if calls := p.calls("/two"); len(calls) != 1 {
		p.Errorf("the calls are %q", calls)
	}
}

// templated runs the tasks of another Workflow twice, with other arguments.
func templated(p *place) {
	template := p.workflow("template", `
templateOnly: true
parameters: [{name: of}]
tasks: [{name: call, http: {url: '`+p.url("/of-${parameters.of}")+`'}}]
`)
	p.phase(template, batchv1.WorkflowIsTemplate)
	for _, of := range []string{"one", "two"} {
		p.ended(p.workflow("run-"+of, "{templateFrom: {name: template}, arguments: {of: "+of+
			"}, ttlSecondsAfterFinished: 3600}"), batchv1.WorkflowSucceeded)
		if calls := p.calls("/of-" + of); len(calls) != 1 {
			p.Errorf("the calls are %q", calls)
		}
	}
	gone := p.workflow("run-short", "{templateFrom: {name: template}, arguments: {of: short}, ttlSecondsAfterFinished: 0}")
	p.Eventually(framework.RemovalTimeout, "a Workflow is deleted after its time", func() error {
		return framework.ErrUnlessNotFound(p.Get(gone.Name, gone))
	})
}

// brokenThings are told by name, and each ends by itself.
func brokenThings(p *place) {
	image := p.workflow("image", `
tasks: [{name: pull, timeout: 30s, container: {image: 'zeroinfra/none:0', command: ['true']}}]
`)
	right := p.workflow("right", `
tasks: [{name: make, apply: {manifest: '{apiVersion: v1, kind: Secret, metadata: {name: x}}'}}]
`)
	slow := p.workflow("slow", `
activeDeadline: 10s
tasks: [{name: wait, script: {`+shell+`, source: 'trap "exit 0" TERM; sleep 900 & wait'}}]
`)
	p.ended(image, batchv1.WorkflowFailed)
	p.ended(right, batchv1.WorkflowFailed)
	p.ended(slow, batchv1.WorkflowFailed)
	for wf, want := range map[*batchv1.Workflow]string{
		image: `cannot get image "zeroinfra/none:0"`, right: "forbidden",
		slow: "not done within 10s"} {
		if !strings.Contains(wf.Status.Message, want) {
			p.Errorf("Workflow %q says %q, want %q", wf.Name, wf.Status.Message, want)
		}
	}
	p.noPods(slow.Status.Operation)
}
