// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// gone is the refusal of a target without its plugin.
var gone = &Refusal{Reason: platformv1.ReasonPluginMissing, Message: `plugin "redis" is not loaded: install it again`}

// waitsForPlugin checks that it says so, and the reason of that.
func (r *restoring) waitsForPlugin(d Decision, asked ...DataVerb) {
	r.t.Helper()
	r.is(platformv1.OperationRunning, gone.Message, asked...)
	if d.Outcome.Reason() != gone.Reason || d.Outcome.After() <= 0 {
		r.t.Errorf("it reports %s, and looks again after %s", d.Outcome.Reason(), d.Outcome.After())
	}
}

// A restore whose plugin goes begins nothing that takes the instance out of service, and goes on when it is back.
func TestRestoreWaitsForItsPlugin(t *testing.T) {
	r := newRestoring(t, JobState{Phase: platformv1.OperationRunning}, nil)
	r.job, r.facts.NoPlugin = there, gone
	r.waitsForPlugin(r.reconcile(), DataPrepare)
	r.facts.NoPlugin = nil
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap)
}

// It is put back without the plugin, whoever or whatever ends it.
func TestRestoreGoesBackWithoutItsPlugin(t *testing.T) {
	r := newRestoring(t, JobState{Phase: platformv1.OperationRunning}, nil)
	r.facts.NoPlugin, r.op.Spec.Cancel = gone, true
	r.reconcile()
	r.is(platformv1.OperationCancelled, "", DataPrepare, DataDiscard)

	r = newRestoring(t, JobState{Phase: platformv1.OperationRunning}, nil)
	r.facts.NoPlugin, r.facts.Now = gone, epoch.Add(DefaultTimeout)
	r.reconcile()
	r.is(platformv1.OperationFailed, gone.Message, DataPrepare, DataDiscard)

	r = newRestoring(t, there, nil)
	r.facts.Data["s"] = DataState{Generation: "01234567"}
	r.facts.NoPlugin, r.facts.Now = gone, epoch.Add(DefaultTimeout+time.Second)
	r.reconcile()
	r.is(platformv1.OperationRunning, "to take up the change", DataPrepare, DataSwap, DataReturn)
	r.facts.Data["s"] = DataState{Serves: "p", Writes: "p"}
	r.reconcile()
	r.is(platformv1.OperationFailed, "to work with the restored data", DataPrepare, DataSwap, DataReturn, DataDiscard)
}

// Pods that have gone to the restored data are not kept from clients for want of a plugin, and nothing is deleted
// meanwhile.
func TestRestoreOpensWithoutItsPlugin(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.facts.Data["s"], r.facts.NoPlugin = DataState{Generation: "01234567", Writes: "p"}, gone
	r.reconcile()
	r.is(platformv1.OperationRunning, "to become the primary", DataPrepare, DataSwap, DataOpen)
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p", Serves: "p"}
	r.waitsForPlugin(r.reconcile(), DataPrepare, DataSwap, DataOpen)
	r.facts.NoPlugin = nil
	r.reconcile()
	r.is(platformv1.OperationSucceeded, "", DataPrepare, DataSwap, DataOpen, DataDrop)
}

// Only what the engine itself has begun with volumes needs no plugin.
func TestUnaided(t *testing.T) {
	restoring := func(change func(*platformv1.Operation)) *platformv1.Operation {
		op := newRestoring(t, there, nil).op
		change(op)
		return op
	}
	for name, tc := range map[string]struct {
		op   *platformv1.Operation
		want bool
	}{
		"under way": {restoring(func(*platformv1.Operation) {}), true},
		"of a named bundle": {restoring(func(op *platformv1.Operation) { op.Spec.TemplateRef = "redis@1.0.0/Restore" }),
			true},
		"not begun": {restoring(func(op *platformv1.Operation) { op.Status = platformv1.OperationStatus{} }),
			false},
		"ended": {restoring(func(op *platformv1.Operation) { op.Status.Phase = platformv1.OperationFailed }),
			false},
		"a plugin's own":      {restoring(func(op *platformv1.Operation) { op.Status.Steps = op.Status.Steps[1:] }), false},
		"nothing of the kind": {restoring(func(op *platformv1.Operation) { op.Spec.TemplateRef = "Stop" }), false},
	} {
		if template := Unaided(tc.op); (template != nil) != tc.want {
			t.Errorf("%s: it is %v", name, template)
		}
	}
}

// again is another Operation that tries a restore again, after that has ended with a refusal in the midst of it.
func (r *restoring) again() (earlier *platformv1.Operation) {
	r.t.Helper()
	earlier = r.op.DeepCopy()
	earlier.Status = Fail(earlier, gone, r.facts.Now).Status
	r.op = &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "again", UID: "89abcdef01"}, Spec: earlier.Spec}
	r.op.Spec.RetryOf, r.asked, r.facts.Answers = earlier.Name, nil, map[string]*Answer{}
	if refusal := Retryable(r.op, earlier, r.facts); refusal != nil {
		r.t.Fatal(refusal)
	}
	return earlier
}

// While the pods had the volumes of before, clients wrote there: what was prepared and copied by an earlier run is from
// before that.
func TestRestoreTriedAgainCopiesAnew(t *testing.T) {
	r := newRestoring(t, there, nil)
	earlier := r.again()
	d := Start(r.op, "redis-a", r.facts, earlier)
	if d.Effect == nil || d.Effect.Data == nil || d.Effect.Data.Verb != DataPrepare ||
		d.Effect.Data.Generation != "89abcdef" {
		t.Fatalf("it begins with %+v", d.Effect)
	}
	for _, step := range d.Status.Steps {
		if step.Phase == platformv1.OperationSucceeded {
			t.Errorf("step %s is taken over", step.Name)
		}
	}
}

// What has gone to the restored data goes on there, with the copy that was made before.
func TestRestoreTriedAgainGoesOn(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p"}
	r.busy = DataOpen
	r.reconcile()
	earlier := r.again()
	r.busy = ""
	r.goOn(Start(r.op, "redis-a", r.facts, earlier))
	r.is(platformv1.OperationRunning, "to become the primary", DataOpen)
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p", Serves: "p"}
	r.reconcile()
	r.is(platformv1.OperationSucceeded, "", DataOpen, DataDrop)
}

// Where an earlier run may have led clients to the restored data, nobody goes back from it.
func TestRestoreTriedAgainDoesNotGoBack(t *testing.T) {
	r := newRestoring(t, there, nil)
	r.facts.Data["s"] = DataState{Generation: "01234567", Writes: "p"}
	r.reconcile()
	earlier := r.again()
	r.refused[DataOpen] = "it has others"
	r.goOn(Start(r.op, "redis-a", r.facts, earlier))
	r.is(platformv1.OperationFailed, "it had passed its point of no return", DataOpen)
	if !Passed(r.op) {
		t.Error("it says that there is a way back")
	}
}
