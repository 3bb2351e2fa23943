// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// committing notes, upgrades, from where on there is no way back, and checks.
const committing = `name: Committing
parameters: {version: {schema: string, default: "8.0"}}
steps:
  - name: note
    compensate: [forget]
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: {of: "${target.name}"}}}
  - name: upgrade
    commits: "pods write with the new version; to go back, restore a backup"
    engine: {do: Upgrade, with: {version: "${parameters.version}"}}
  - name: check
    operation: {templateRef: Check}
  - name: forget
    delete: {apiVersion: v1, kind: ConfigMap, name: note}
`

// nesting runs something that may have a point of no return.
const nesting = `name: Nesting
steps:
  - name: note
    compensate: [forget]
    apply: {apiVersion: v1, kind: ConfigMap, name: note}
  - name: inner
    operation: {templateRef: UpgradePaaS, parameters: {version: "8.0"}}
  - name: forget
    delete: {apiVersion: v1, kind: ConfigMap, name: note}
`

func cancels(w *world) { w.op.Spec.Cancel = true }

// endless is a run that nothing but time ends.
func endless(w *world) *world {
	w.op.Spec.Timeout = &metav1.Duration{Duration: time.Minute}
	return w
}

// noReturnStories are those of points of no return.
var noReturnStories = map[string]func() *world{
	"no-return-failure-goes-forward": func() *world {
		w := endless(worldOf(committing, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("It is Ready with the edit.", settled)
		w.happens("The check fails.", func(w *world) {
			w.children["run-check"].Phase, w.children["run-check"].Error = platformv1.OperationFailed, "no luck"
		})
		w.happens("It is cancelled, too late.", cancels)
		w.happens("5 s later.", wait(5*time.Second))
		w.happens("The check fails again.", func(w *world) {
			w.children["run-check-try2"].Phase, w.children["run-check-try2"].Error = platformv1.OperationFailed, "no luck"
		})
		w.happens("10 s later.", wait(10*time.Second))
		w.happens("It succeeds.", func(w *world) { w.children["run-check-try3"].Phase = platformv1.OperationSucceeded })
		return w
	},
	"no-return-time-is-over": func() *world {
		w := endless(worldOf(committing, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("A minute passes.", wait(time.Minute))
		return w
	},
	"no-return-refused-goes-back": func() *world {
		w := worldOf(committing, pod(0, primary))
		w.refuse["edit"] = "version 8.0 is not supported"
		w.happens("The Operation starts.", nil)
		return w
	},
	"no-return-controller-dies": func() *world {
		w := worldOf(approved, pod(0, primary))
		w.facts.Template, w.facts.Parameters = Defaults()["UpgradePaaS"], map[string]string{"version": "8.0"}
		w.crash = crashAfterWrite
		w.happens("The Operation starts, and the controller dies when the upgrade is on record.", nil)
		w.happens("It is cancelled, which admission did not see.", cancels)
		w.happens("It is Ready with the edit.", settled)
		return w
	},
	"no-return-cancelled-before": func() *world {
		w := worldOf(committing, pod(0, primary))
		w.crash = crashAfterWrite
		w.happens("The Operation starts, and the controller dies when the note is on record.", nil)
		w.happens("It is cancelled.", cancels)
		return w
	},
	"no-return-of-a-step": func() *world {
		w := endless(worldOf(nesting, pod(0, primary)))
		w.happens("The Operation starts.", nil)
		w.happens("What it runs has passed its point of no return.", func(w *world) {
			inner := w.children["run-inner"]
			inner.Phase = platformv1.OperationRunning
			inner.Conditions = []metav1.Condition{
				{Type: platformv1.PointOfNoReturnCondition, Status: metav1.ConditionTrue, Message: "restore a backup"}}
		})
		w.happens("It is cancelled, too late.", cancels)
		w.happens("What it runs has ended.", func(w *world) { w.children["run-inner"].Phase = platformv1.OperationSucceeded })
		return w
	},
	"no-return-failover": func() *world {
		w := writingWorld(TemplateFailover, nil)
		w.happens("The Operation starts.", nil)
		w.happens("Pod 0 is deposed.", deposed)
		w.happens("It is cancelled, too late.", cancels)
		w.happens("Pod 1 is named.", named(1))
		w.happens("Pod 1 writes.", labelled(1))
		return w
	},
	"no-return-failover-cancelled-before": func() *world {
		w := writingWorld(TemplateFailover, nil)
		w.happens("The Operation starts.", nil)
		w.happens("It is cancelled.", cancels)
		return w
	},
	"no-return-rebuild-is-tried-again": func() *world {
		w := writingWorld("RebuildMember", map[string]string{"pod": "redis-a-main-1"})
		w.happens("The Operation starts.", nil)
		w.happens("The pod and its volume are made anew, and it is refused to delete more.", func(w *world) {
			w.replace(1)
			w.at(1).Claims = []Claim{{Name: "data-redis-a-main-1", UID: "claim-new", Presence: PodRunning}}
		})
		w.happens("It is cancelled, too late.", cancels)
		w.happens("It is a member again.", func(w *world) {
			w.records(func(r *platformv1.PrimaryRecord) { r.List.Members[1].Identity = "new" })
		})
		return w
	},
}

// A run that has passed its point of no return undoes nothing, however it ends, whoever dies and whatever fails; one
// that has not undoes all of it.
func TestRandomHistoriesWithAPointOfNoReturn(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 23))
		w := worldOf(committing, pod(0, primary), pod(1, reader))
		w.op.Spec.Timeout = &metav1.Duration{Duration: 5 * time.Minute}
		unlucky := int(seed % 4 * 4)
		bad := func() bool { return rng.IntN(30) < unlucky }
		if seed%7 == 0 {
			w.refuse["edit"] = "not supported"
		}
		for round := 0; round < 600 && !Finished(w.op); round++ {
			passed := Passed(w.op)
			w.crash = []crashPoint{crashNever, crashNever, crashBeforeWrite, crashAfterWrite, crashAfterCall}[rng.IntN(5)]
			w.happens("Something happens.", func(w *world) {
				if w.happen(rng, bad); rng.IntN(20) == 0 && unlucky > 0 {
					w.op.Spec.Cancel = true
				}
			})
			edited := len(w.fields) > 0
			switch {
			case edited && !Passed(w.op):
				t.Fatalf("seed %d upgraded without that on record:\n%s", seed, w.story.String())
			case passed && !edited && !Passed(w.op) && w.refuse["edit"] == "":
				t.Fatalf("seed %d came back from where there is no way back:\n%s", seed, w.story.String())
			case passed && edited && (w.op.Status.Ending == platformv1.EndingCancelled ||
				w.op.Status.Phase == platformv1.OperationCancelled):
				t.Fatalf("seed %d was cancelled past its point of no return:\n%s", seed, w.story.String())
			}
		}
		noted := w.objects["ConfigMap note"] != nil
		switch {
		case !Finished(w.op):
			t.Fatalf("seed %d never ends:\n%s", seed, w.story.String())
		case Passed(w.op) && !noted:
			t.Fatalf("seed %d undid something past its point of no return:\n%s", seed, w.story.String())
		case !Passed(w.op) && noted:
			t.Fatalf("seed %d ended as %s before its point of no return and undid nothing:\n%s", seed, w.op.Status.Phase,
				w.story.String())
		case Passed(w.op) && w.op.Status.Phase == platformv1.OperationFailed &&
			!strings.Contains(w.op.Status.Error, `an Operation with retryOf "run" goes on`):
			t.Fatalf("seed %d does not say how to go on: %s", seed, w.op.Status.Error)
		}
		ends[fmt.Sprintf("%s, passed %t", w.op.Status.Phase, Passed(w.op))]++
	}
	for _, end := range []string{"Succeeded, passed true", "Failed, passed true", "Failed, passed false",
		"Cancelled, passed false"} {
		if ends[end] == 0 {
			t.Errorf("no run ended as %s: %v", end, ends)
		}
	}
}

// What tries a run again that had passed its point of no return has passed it, too.
func TestARetryBeginsPastThePointOfNoReturn(t *testing.T) {
	w := endless(worldOf(committing, pod(0, primary)))
	w.happens("The Operation starts.", nil)
	w.happens("It is Ready with the edit.", settled)
	w.happens("A minute passes.", wait(time.Minute))
	if w.op.Status.Phase != platformv1.OperationFailed || !Passed(w.op) {
		t.Fatal(w.story.String())
	}
	next := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "next", UID: "next"},
		Spec: platformv1.OperationSpec{RetryOf: "run", Cancel: true}}
	d := Start(next, "redis-a", w.facts, w.op)
	next.Status = d.Status
	if !Passed(next) || next.Status.Phase != platformv1.OperationRunning || next.Status.CurrentStep != 2 {
		t.Errorf("it goes on as %+v", next.Status)
	}
}

// Nobody ends what has passed its point of no return, and what pre-empts goes on beside it unless it works through
// pods.
func TestTheQueuePastThePointOfNoReturn(t *testing.T) {
	running := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "running", UID: "running"},
		Status: platformv1.OperationStatus{Phase: platformv1.OperationRunning,
			Steps: []platformv1.StepStatus{{Name: "upgrade", Phase: platformv1.OperationRunning}}}}
	asked := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "asked", UID: "asked"},
		Status: platformv1.OperationStatus{Phase: platformv1.OperationPending, Application: "redis-a"}}
	other := asked.DeepCopy()
	other.Name, other.UID = "other", "other"
	urgent := []*platformv1.Operation{asked}
	q := Queue{Operations: []*platformv1.Operation{running, asked, other},
		Urgent: func(op *platformv1.Operation) bool { return slices.Contains(urgent, op) }}
	wants := func(what string, ends, first, behind *platformv1.Operation) {
		t.Helper()
		if got := q.Preempts(running); got != ends {
			t.Errorf("%s: it is ended for %v", what, got)
		}
		if got := q.Ahead(asked); got != first {
			t.Errorf("%s: what pre-empts waits for %v", what, got)
		}
		if got := q.Ahead(other); got != behind {
			t.Errorf("%s: the other waits for %v", what, got)
		}
	}
	wants("before", asked, running, running)
	running.Status.Conditions = []metav1.Condition{
		{Type: platformv1.PointOfNoReturnCondition, Status: metav1.ConditionTrue}}
	wants("past", nil, nil, running)
	running.Status.Steps[0].Targets = []platformv1.StepTarget{
		{Name: "pod", UID: types.UID("1"), Phase: platformv1.OperationRunning}}
	wants("past, at work in pods", nil, running, running)
	urgent = append(urgent, running)
	running.Status.Steps[0].Targets = nil
	wants("past, and pre-empts itself", nil, running, running)
}

// The plan of a dry run says where there is no way back.
func TestADryRunSaysWhereThereIsNoWayBack(t *testing.T) {
	w := worldOf(committing, pod(0, primary))
	w.op.Spec.DryRun = true
	d := Start(w.op, "redis-a", w.facts, nil)
	const want = "upgrade: from here on there is no way back: pods write with the new version; " +
		"to go back, restore a backup"
	if !slices.Contains(d.Status.Plan, want) {
		t.Errorf("plan: %q", d.Status.Plan)
	}
	if len(d.Status.Conditions) > 0 {
		t.Errorf("a dry run passes nothing: %+v", d.Status.Conditions)
	}
}
