// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// suspending are runs of the templates that make something anew, by name, each with what it does first.
var suspending = map[string]struct {
	make  func() *world
	first func(*Effect) bool
}{
	"RebuildMember": {func() *world { return writingWorld("RebuildMember", map[string]string{"pod": "redis-a-main-1"}) },
		func(e *Effect) bool { return e.Rebuild != nil }},
	"RotateCredentials": {func() *world {
		w := writingWorld("RotateCredentials", nil)
		w.facts.Credentials = []Credential{{Name: "default"}}
		return w
	}, func(e *Effect) bool { return e.Rotation != nil }},
}

// What makes a pod or passwords anew begins nothing while the engine leaves the instance alone, and goes on with
// nothing, in the sentence of every step that waits for that.
func TestNothingIsMadeAnewWhileSuspended(t *testing.T) {
	for name, of := range suspending {
		t.Run(name, func(t *testing.T) {
			w := of.make()
			held := func(d Decision, phase platformv1.OperationPhase) {
				t.Helper()
				step := d.Status.Steps[0]
				if d.Effect != nil || step.Phase != phase || step.Message != `waiting for suspend of Redis "a" to be false` ||
					d.Outcome.Reason() != platformv1.ReasonSuspended || d.Outcome.After() != declaredPoll {
					t.Errorf("it does %+v, and is %+v: %s after %s", d.Effect, step, d.Outcome.Reason(), d.Outcome.After())
				}
			}
			w.facts.Application.Spec.Suspend = true
			d := Start(w.op, "redis-a", w.facts, nil)
			if held(d, platformv1.OperationPending); HasBegun(&platformv1.Operation{Status: d.Status}, w.facts.Template) {
				t.Error("it has begun")
			}
			w.op.Status = d.Status
			w.facts.Application.Spec.Suspend = false
			if d = Next(w.op, w.facts); d.Effect == nil || !of.first(d.Effect) {
				t.Fatalf("it does %+v once that is lifted: %+v", d.Effect, d.Status.Steps)
			}
			w.op.Status = d.Status
			w.facts.Application.Spec.Suspend = true
			held(Next(w.op, w.facts), platformv1.OperationRunning)
			wait(DefaultTimeout)(w)
			if d = Next(w.op, w.facts); d.Status.Phase != platformv1.OperationFailed {
				t.Errorf("it waits for ever: %+v", d.Status)
			}
		})
	}
}

// One that somebody cancels meanwhile has done nothing.
func TestWhatIsSuspendedCanBeCancelled(t *testing.T) {
	for name, of := range suspending {
		w := of.make()
		w.facts.Application.Spec.Suspend = true
		w.happens("The Operation starts.", nil)
		w.happens("It is cancelled.", cancels)
		if w.op.Status.Phase != platformv1.OperationCancelled || w.op.Status.Steps[0].Attempts != 0 {
			t.Errorf("%s is %+v", name, w.op.Status)
		}
	}
}

// Every template that makes something anew is among those.
func TestWhatMakesAnewIsSuspended(t *testing.T) {
	for name, template := range Defaults() {
		_, known := suspending[name]
		for _, step := range template.Steps {
			if anew := does(step, optemplate.EngineRebuild) || does(step, optemplate.EngineRotate); anew != known {
				t.Errorf("step %s of %s makes something anew: %t", step.Name, name, anew)
			}
		}
	}
}

// An edited spec and a step that edits it say the same while the instance is suspended; nothing but its end wakes a
// record.
func TestTheSentenceOfWhatIsSuspended(t *testing.T) {
	w := worldOf(committing, pod(0, primary))
	w.facts.Declared.Ready.Reason = platformv1.ReasonSuspended
	w.facts.Application.Status.ObservedGeneration = 1
	step := (&run{facts: w.facts}).settled("1")
	record := w.facts.applied(1)
	for of, v := range map[string]verdict{"a step": step, "a record": record} {
		if v.waiting != `suspend of Redis "a" to be false` || v.reason != platformv1.ReasonSuspended {
			t.Errorf("%s says %+v", of, v)
		}
	}
	if step.retry != 30*time.Second || record.retry != 0 {
		t.Errorf("they look again after %s and %s", step.retry, record.retry)
	}
}
