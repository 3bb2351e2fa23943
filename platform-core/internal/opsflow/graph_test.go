// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// worldOf is a world with a template as authors write it, and an Application.
func worldOf(text string, pods ...Pod) *world {
	template, err := optemplate.Parse(text)
	if err != nil {
		panic(err)
	}
	w := newWorld(template, pods...)
	w.op.Name = "run"
	w.facts.Reference = platformv1.TargetReference{APIVersion: "database.zeroinfra.github.com/v1", Kind: "Redis",
		Name: "a"}
	w.facts.Application = &platformv1.Application{Spec: platformv1.ApplicationSpec{Version: "7.0", Topology: "standalone"}}
	w.facts.Components = []string{"redis"}
	w.facts.Parameters = ParametersInForce(w.op.Spec, template)
	w.facts.Declared = Declared{Object: `Redis "a"`, ObservedGeneration: 1, Ready: Condition{Status: metav1.ConditionTrue}}
	return w
}

// settled has the outermost object say that it is Ready with generation 2.
func settled(w *world) { w.facts.Declared.ObservedGeneration = 2 }

func wait(d time.Duration) func(*world) {
	return func(w *world) { w.facts.Now = w.facts.Now.Add(d) }
}

const around = `name: Around
parameters: {size: {schema: string, default: "3"}}
steps:
  - name: note
    compensate: [forget]
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: {size: "${parameters.size}"}}}
  - name: scale
    engine: {do: Scale, with: {replicas: "${parameters.size}"}}
  - name: check
    when: int(parameters.size) > 1
    wait: {apiVersion: v1, kind: ConfigMap, name: answer, until: object.data.ok == 'yes',
      outputs: {who: object.data.who}}
  - name: tell
    operation: {templateRef: Restart, parameters: {why: "${steps.check.outputs.who} said so"}}
  - name: forget
    delete: {apiVersion: v1, kind: ConfigMap, name: note}
`

const sides = `name: Sides
steps:
  - name: left
    wait: {apiVersion: v1, kind: ConfigMap, name: left, until: object.ok}
  - name: right
    needs: []
    wait: {apiVersion: v1, kind: ConfigMap, name: right, until: object.ok}
  - name: both
    needs: [left, right]
    apply: {apiVersion: v1, kind: ConfigMap, name: both}
`

const approved = `name: Approved
steps:
  - name: ask
    approval: {message: "restart ${target.name}"}
  - name: restart
    agent: {call: Restart}
`

const each = `name: Each
steps:
  - name: many
    forEach: "['a', 'b']"
    retry: {limit: 1, backoff: 3s}
    operation: {templateRef: Restart, parameters: {of: "${each}"}}
`

const clearing = `name: Clearing
steps:
  - name: clear
    forEach: "['a', 'b', 'c']"
    delete: {apiVersion: v1, kind: ConfigMap, name: "${each}"}
`

const acting = `name: Acting
steps:
  - name: ask
    retry: {limit: 2, backoff: 4s}
    agent: {action: ask, pods: Writers, parameters: {what: "${target.name}"}}
  - name: use
    apply: {apiVersion: v1, kind: ConfigMap, name: use, content: {data: {said: "done"}}}
`

func actingWorld() *world {
	w := worldOf(acting, pod(0, primary), pod(1, reader))
	w.facts.Actions = map[string][]plan.Action{
		"redis": {{Name: "ask", Command: []string{"ask"}, Parameters: map[string]string{"what": "string"}}}}
	return w
}

// graphStories are those of steps other than plain calls.
var graphStories = map[string]func() *world{
	"around-the-engine": func() *world {
		w := worldOf(around, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("It is Ready with the edit.", settled)
		w.happens("The object is there.", func(w *world) {
			w.objects["ConfigMap answer"] = map[string]any{"data": map[string]any{"ok": "yes", "who": "Ada"}}
		})
		w.happens("The child runs.", func(w *world) {
			w.children["run-tell"].Phase, w.children["run-tell"].Progress = platformv1.OperationRunning, "1/1 restart"
		})
		w.happens("The child has succeeded.", func(w *world) { w.children["run-tell"].Phase = platformv1.OperationSucceeded })
		return w
	},
	"engine-refuses": func() *world {
		w := worldOf(around, pod(0, primary))
		w.refuse["edit"] = "component \"redis\" takes 1 replica"
		w.happens("The Operation starts.", nil)
		return w
	},
	"engine-stalls": func() *world {
		w := worldOf(around, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.happens("It has the edit and is not Ready.", func(w *world) {
			w.facts.Declared.ObservedGeneration, w.facts.Declared.Ready = 2,
				Condition{Status: metav1.ConditionFalse, Message: "1 of 3 ready"}
		})
		w.happens("It stalls.", func(w *world) {
			w.facts.Declared.Stalled = Condition{Status: metav1.ConditionTrue, Message: "no node for pod 2"}
		})
		return w
	},
	"cancelled": func() *world {
		w := worldOf(around, pod(0, primary))
		w.happens("The Operation starts.", nil)
		w.crash = crashAfterWrite
		w.happens("It is cancelled.", func(w *world) { w.op.Spec.Cancel = true })
		w.happens("A controller starts.", nil)
		w.happens("It is Ready with the edit.", settled)
		return w
	},
	"cancelled-restart": func() *world {
		w := newWorld(restartTemplate(), pod(0, ""), pod(1, ""))
		w.happens("The Operation starts.", nil)
		w.happens("It is cancelled while pod 0 restarts.", func(w *world) { w.op.Spec.Cancel = true })
		w.happens("Pod 0 has restarted.", func(w *world) { w.done(0) })
		return w
	},
	"side-by-side": func() *world {
		w := worldOf(sides)
		w.happens("The Operation starts.", nil)
		w.happens("The right one is there.", func(w *world) { w.objects["ConfigMap right"] = map[string]any{"ok": true} })
		w.happens("The left one is there.", func(w *world) { w.objects["ConfigMap left"] = map[string]any{"ok": true} })
		return w
	},
	"approved": func() *world {
		w := worldOf(approved, pod(0, ""))
		w.op.Spec.Author = "ada"
		w.happens("The Operation starts.", nil)
		w.happens("An hour passes, and somebody approves.", func(w *world) {
			wait(time.Hour)(w)
			w.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
		})
		w.happens("The pod has restarted.", func(w *world) { w.done(0) })
		return w
	},
	"rejected": func() *world {
		w := worldOf(approved, pod(0, ""))
		w.op.Spec.Author = "ada"
		w.happens("The Operation starts.", nil)
		w.happens("Somebody rejects.", func(w *world) {
			w.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationRejected}
		})
		return w
	},
	"approved-by-the-author": func() *world {
		w := worldOf(approved, pod(0, ""))
		w.op.Spec.Author = "ada"
		w.happens("The Operation starts.", nil)
		w.happens("The author approves.", func(w *world) {
			w.op.Spec.Approval = &platformv1.OperationApproval{By: "ada", Decision: platformv1.OperationApproved}
		})
		return w
	},
	"for-each-with-another-attempt": func() *world {
		w := worldOf(each)
		w.happens("The Operation starts.", nil)
		w.happens("The first has succeeded.",
			func(w *world) { w.children["run-many-1"].Phase = platformv1.OperationSucceeded })
		w.happens("The second has failed.", func(w *world) {
			w.children["run-many-2"].Phase, w.children["run-many-2"].Error = platformv1.OperationFailed, "no luck"
		})
		w.happens("2 s later.", wait(2*time.Second))
		w.happens("3 s later.", wait(time.Second))
		w.happens("It has succeeded.", func(w *world) { w.children["run-many-2-try2"].Phase = platformv1.OperationSucceeded })
		return w
	},
	"action-with-attempts": func() *world {
		w := actingWorld()
		w.happens("The Operation starts.", nil)
		fails := func(w *world) {
			w.shows(0, report.CallFailed, "not now", report.Healthy)
			w.at(0).Report.LastCall = nil
		}
		w.happens("The action fails.", fails)
		w.crash = crashAfterCall
		w.happens("4 s later, the controller dies after the call.", wait(4*time.Second))
		w.happens("A controller starts.", nil)
		w.happens("The action fails again.", fails)
		w.happens("8 s later.", wait(8*time.Second))
		w.happens("It succeeds.", func(w *world) { w.done(0); w.at(0).Report.LastCall = nil })
		return w
	},
	"delete-that-is-on-record": func() *world {
		w := worldOf(clearing, pod(0, primary))
		for _, name := range []string{"a", "c"} {
			w.objects["ConfigMap "+name] = map[string]any{}
		}
		w.crash = crashBeforeDelete
		w.happens("The Operation starts, and the controller dies before it deletes.", nil)
		w.happens("Somebody deletes a and makes it anew; then a controller starts.",
			func(w *world) { w.uids["ConfigMap a"] = "the second" })
		return w
	},
	"delete-that-was-done-before": func() *world {
		w := worldOf(clearing, pod(0, primary))
		w.objects["ConfigMap a"] = map[string]any{}
		w.happens("The Operation starts, and the controller dies after it has deleted.",
			func(w *world) { w.crash = crashAfterDelete })
		w.happens("Somebody makes a anew; then a controller starts.",
			func(w *world) { w.objects["ConfigMap a"], w.uids["ConfigMap a"] = map[string]any{}, "the second" })
		return w
	},
	"switchover": func() *world {
		template := Defaults()["Switchover"]
		w := worldOf(approved, pod(0, primary), pod(1, reader))
		w.facts.Template, w.facts.Parameters = template, map[string]string{"component": "", "to": ""}
		w.happens("The Operation starts.", nil)
		w.happens("Nobody writes.", func(w *world) { w.at(0).Access = reader })
		w.happens("Pod 1 writes.", func(w *world) { w.at(1).Access = primary })
		return w
	},
	"switchover-is-cancelled": func() *world {
		w := worldOf(approved, pod(0, primary), pod(1, reader))
		w.facts.Template, w.facts.Parameters = Defaults()["Switchover"], map[string]string{"component": "", "to": ""}
		w.happens("The Operation starts.", nil)
		w.crash = crashAfterCall
		w.happens("It is cancelled, and the controller dies once the request is taken back.",
			func(w *world) { w.op.Spec.Cancel = true })
		w.happens("A controller starts.", nil)
		return w
	},
	"switchover-fails": func() *world {
		template := Defaults()["Switchover"]
		w := worldOf(approved, pod(0, primary), pod(1, reader))
		w.facts.Template, w.facts.Parameters = template, map[string]string{"component": "redis", "to": "redis-a-main-1"}
		w.happens("The Operation starts.", nil)
		w.happens("It does not hand over.", func(w *world) { w.refuse["handover"] = "pod 0 does not hand over" })
		return w
	},
}
