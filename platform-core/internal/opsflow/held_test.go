// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// closed shuts the maintenance windows for an hour.
func closed(w *world) {
	w.facts.Held = &Hold{Until: w.facts.Now.Add(time.Hour),
		Words: "the maintenance window, next at one: pod redis-a-main-0 is to be restarted or replaced"}
}

func opens(w *world) {
	wait(time.Hour)(w)
	w.facts.Held = nil
}

// readmitted is a reconcile of a controller that lets a run back into the queue.
func (w *world) readmitted(what string, do func(*world)) {
	w.tell("%s", what)
	do(w)
	w.facts.Answers = map[string]*Answer{}
	if WaitsInQueue(w.op, w.facts) {
		w.tell("  it takes its turn")
		d := Start(w.op, "redis-a", w.facts, nil)
		w.write(d)
	}
	w.reconcile()
}

const approvedUpgrade = `name: Upgrade
steps:
  - name: ask
    approval: {message: go on}
  - name: upgrade
    commits: "restore a backup"
    engine: {do: Upgrade, with: {version: "8.0"}}
`

// heldStories are those of maintenance windows.
var heldStories = map[string]func() *world{
	"held-until-the-window": func() *world {
		w := worldOf(committing, pod(0, primary))
		closed(w)
		w.happens("The Operation starts.", nil)
		w.readmitted("59 minutes later.", wait(59*time.Minute))
		w.readmitted("The window opens.", opens)
		w.readmitted("It is Ready with the edit.", settled)
		return w
	},
	"held-and-cancelled": func() *world {
		w := worldOf(committing, pod(0, primary))
		closed(w)
		w.happens("The Operation starts.", nil)
		w.happens("It is cancelled.", cancels)
		return w
	},
	"held-by-the-rollout": func() *world {
		w := endless(worldOf(committing, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("The window closes before all pods are done.", func(w *world) {
			settled(w)
			w.facts.Declared.Ready = Condition{Status: metav1.ConditionFalse, Reason: platformv1.ReasonWaitingForMaintenance,
				Message: "waits for the maintenance window, next at one: pod 1 is to be replaced"}
		})
		w.readmitted("A day later it opens.", func(w *world) {
			wait(24 * time.Hour)(w)
			w.facts.Declared.Ready = Condition{Status: metav1.ConditionFalse, Reason: "PodsNotReady", Message: "pod 1 starts"}
		})
		w.readmitted("50 s later.", wait(50*time.Second))
		w.readmitted("10 s later.", wait(10*time.Second))
		return w
	},
	"held-while-suspended": func() *world {
		w := endless(worldOf(committing, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("The instance is suspended, and Ready as it was.", func(w *world) {
			settled(w)
			w.facts.Declared.Ready = Condition{Status: metav1.ConditionTrue, Reason: platformv1.ReasonSuspended,
				Message: "suspend is true, so that nothing is changed or repaired: set spec.suspend to false to resume"}
		})
		w.readmitted("It goes on, and is Ready with the edit.", func(w *world) {
			w.facts.Declared.Ready = Condition{Status: metav1.ConditionTrue, Reason: platformv1.ReasonReady}
		})
		return w
	},
	"held-and-approved": func() *world {
		w := worldOf(approvedUpgrade, pod(0, primary))
		w.op.Spec.Author = "ada"
		closed(w)
		w.happens("The Operation starts.", nil)
		w.readmitted("Somebody approves.", func(w *world) {
			w.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
		})
		w.readmitted("Nothing happens.", func(*world) {})
		w.readmitted("The window opens.", opens)
		w.readmitted("It is Ready with the edit.", settled)
		return w
	},
	"held-by-what-it-runs": func() *world {
		w := endless(worldOf(nesting, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("What it runs waits for a window.", func(w *world) {
			inner := w.children["run-inner"]
			inner.Phase = platformv1.OperationRunning
			inner.Conditions = []metav1.Condition{{Type: platformv1.HeldCondition, Status: metav1.ConditionTrue}}
		})
		w.happens("A day passes.", wait(24*time.Hour))
		w.happens("It goes on.", func(w *world) { w.children["run-inner"].Conditions[0].Status = metav1.ConditionFalse })
		w.happens("It has ended.", func(w *world) { w.children["run-inner"].Phase = platformv1.OperationSucceeded })
		return w
	},
}

// One that waits for a window keeps nobody waiting, and waits in the queue again only when it has begun nothing.
func TestHeldOnesStandAside(t *testing.T) {
	w := worldOf(committing, pod(0, primary))
	closed(w)
	w.happens("The Operation starts.", nil)
	other := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"},
		Status: platformv1.OperationStatus{Phase: platformv1.OperationPending}}
	q := Queue{Operations: []*platformv1.Operation{w.op, other}}
	if first := q.Ahead(other); first != nil {
		t.Errorf("the other waits for %s", first.Name)
	}
	urgent := Queue{Operations: q.Operations, Urgent: func(op *platformv1.Operation) bool { return op == other }}
	other.Status.Application = "redis-a"
	if by := urgent.Preempts(w.op); by != nil || urgent.Ahead(other) != nil {
		t.Errorf("it is ended for %v, or waited for", by)
	}
	if WaitsInQueue(w.op, w.facts) {
		t.Error("it takes its turn while the window is closed")
	}
	other.Status.Phase = platformv1.OperationRunning
	if opens(w); !WaitsInQueue(w.op, w.facts) || q.Ahead(w.op) != other {
		t.Error("it goes on beside another one")
	}
	d := Wait(w.op, "redis-a", Decision{}.Outcome, w.facts.Now)
	if w.op.Status = d.Status; Held(w.op) || w.op.Status.Phase != platformv1.OperationPending {
		t.Errorf("it waits as %+v", w.op.Status)
	}
}

// What waits for a window, and what does not: what someone asked for to be done to processes and pods now.
func TestHoldingSteps(t *testing.T) {
	for name, want := range map[string]bool{
		"UpgradePaaS": true, "UpgradeApp": true, "VerticalScaleResource": true, "VerticalScaleVolume": true,
		"RotateCredentials": true,
		"HorizontalScale":   false, "Stop": false, "Start": false, "Restart": false, "Reload": false, "Switchover": false,
		TemplateFailover: false, "RebuildMember": false,
		"Create": false, "Delete": false, "Apply": false, "Plan": false, "Backup": false, "VerifyBackup": false,
		TemplateRestore: false,
	} {
		if got := len(HoldingSteps(Defaults()[name])) > 0; got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if len(Defaults()) != 20 {
		t.Errorf("there are %d templates: say of each whether it waits", len(Defaults()))
	}
	undone := optemplate.Template{
		Steps: []optemplate.Step{{Name: "a", Compensate: []string{"b"}},
			{Name: "b", Engine: &optemplate.EngineStep{Do: optemplate.EngineUpgrade}}}}
	if len(HoldingSteps(undone)) > 0 {
		t.Error("what undoes waits for a window")
	}
}
