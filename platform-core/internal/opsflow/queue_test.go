// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func TestRetryable(t *testing.T) {
	made, later := metav1.NewTime(epoch), metav1.NewTime(epoch.Add(time.Hour))
	facts := Facts{Template: restartTemplate(), Target: `Redis "a"`,
		Application: &platformv1.Application{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}}}
	failed := func(author string, at metav1.Time) *platformv1.Operation {
		return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "first"},
			Spec:   platformv1.OperationSpec{Author: author},
			Status: platformv1.OperationStatus{Phase: platformv1.OperationFailed, CompletionTime: &at}}
	}
	for name, tc := range map[string]struct {
		author  string
		earlier *platformv1.Operation
		text    string
	}{
		"same author":        {"ada", failed("ada", later), ""},
		"no author":          {"", failed("ada", later), ""},
		"another author":     {"ada", failed("bob", later), "is not of ada"},
		"nobody's":           {"ada", failed("", later), "is not of ada"},
		"at the same second": {"ada", failed("ada", made), ""},
		"of one before": {"ada", failed("ada", metav1.NewTime(epoch.Add(-time.Second))),
			`ended before Redis "a" was made`},
	} {
		t.Run(name, func(t *testing.T) {
			reason := ""
			if tc.text != "" {
				reason = platformv1.ReasonInvalidSpec
			}
			expect(t, Retryable(&platformv1.Operation{Spec: platformv1.OperationSpec{Author: tc.author}}, tc.earlier, facts),
				reason, tc.text)
		})
	}
}

// An approval was given to one run: another one asks again, and goes on from there.
func TestRetryAsksForAnApprovalAgain(t *testing.T) {
	w := worldOf(approved, pod(0, platformv1.RoleReadWrite))
	at := metav1.NewTime(epoch)
	earlier := &platformv1.Operation{Status: platformv1.OperationStatus{Phase: platformv1.OperationFailed,
		CompletionTime: &at, Steps: []platformv1.StepStatus{
			{Name: "ask", Phase: platformv1.OperationSucceeded, Outputs: map[string]string{"by": "bob"}},
			{Name: "restart", Phase: platformv1.OperationFailed}}}}
	w.op.Spec.Author = "ada"
	d := Start(w.op, "redis-a", w.facts, earlier)
	if d.Status.Phase != platformv1.OperationAwaitingApproval || d.Effect != nil || d.Status.Steps[0].Outputs["by"] != "" {
		t.Errorf("it goes on without an approval of its own: %+v", d.Status)
	}
}

// What a step runs has the account and the retry of the Operation that it is a step of.
func TestANestedOperationHasTheAccountAndTheRetry(t *testing.T) {
	w := worldOf("name: Nest\nsteps:\n  - {name: tell, operation: {templateRef: Restart}}\n")
	w.op.Spec.ServiceAccountName, w.op.Spec.Author = "deployer", "ada"
	w.op.Spec.Retry = &platformv1.OperationRetry{Limit: 2}
	d := Start(w.op, "redis-a", w.facts, nil)
	if d.Effect == nil || d.Effect.Child == nil {
		t.Fatalf("no Operation is made: %+v", d)
	}
	if spec := d.Effect.Child.Spec; spec.ServiceAccountName != "deployer" || spec.Retry == nil || spec.Retry.Limit != 2 {
		t.Errorf("it is made with %+v", spec)
	}
}

// What somebody deletes that a step runs may have done its work: it is not run once more by itself, but by another
// attempt.
func TestANestedOperationRunsOnceForEachAttempt(t *testing.T) {
	for name, each := range map[string]string{"a step": "", "an item of some": `forEach: '["x"]', `} {
		t.Run(name, func(t *testing.T) {
			w := worldOf("name: Nest\nsteps:\n  - {name: tell, " + each + "retry: {limit: 1, backoff: 1s}, " +
				"operation: {templateRef: Restart}}\n")
			w.happens("The Operation starts.", nil)
			if len(w.children) != 1 {
				t.Fatalf("it runs %v", w.children)
			}
			w.happens("Somebody deletes what it runs.", func(w *world) { clear(w.children) })
			if len(w.children) != 0 {
				t.Errorf("it is run again: %v", w.children)
			}
			w.happens("Another attempt begins.", func(w *world) { w.facts.Now = w.facts.Now.Add(time.Minute) })
			if len(w.children) != 1 {
				t.Fatalf("another attempt runs %v: %+v", w.children, w.op.Status)
			}
			for _, child := range w.children {
				child.Phase = platformv1.OperationSucceeded
			}
			w.happens("It ends.", nil)
			if w.op.Status.Phase != platformv1.OperationSucceeded {
				t.Errorf("it ended as %+v", w.op.Status)
			}
		})
	}
}

// How long a run may take its Operation says, else its template, and what a step runs has as long; it is on record when
// the run begins.
func TestHowLongARunMayTake(t *testing.T) {
	const text = "name: Nest\nsteps:\n  - {name: tell, operation: {templateRef: Restart}}\n"
	hour := &metav1.Duration{Duration: time.Hour}
	for name, tc := range map[string]struct {
		text string
		said *metav1.Duration
		want time.Duration
	}{
		"nobody says":            {text, nil, DefaultTimeout},
		"the template says":      {"timeout: 30m\n" + text, nil, 30 * time.Minute},
		"the Operation says":     {text, hour, time.Hour},
		"both say":               {"timeout: 30m\n" + text, hour, time.Hour},
		"the template says less": {"timeout: 1m\n" + text, nil, time.Minute},
	} {
		w := worldOf(tc.text)
		w.op.Spec.Timeout = tc.said
		w.op.Status = Start(w.op, "redis-a", w.facts, nil).Status
		if got := w.op.Status.Timeout; got == nil || got.Duration != tc.want {
			t.Errorf("%s: on record is %v, want %s", name, got, tc.want)
		}
		if d := Start(w.op, "redis-a", w.facts, nil); d.Effect == nil || d.Effect.Child.Spec.Timeout.Duration != tc.want {
			t.Errorf("%s: what it runs is made with %+v", name, d.Effect)
		}
		// What the template says later is for later runs.
		w.facts.Template.Timeout = "24h"
		w.facts.Now = epoch.Add(tc.want - time.Second)
		if d := Next(w.op, w.facts); Finished(&platformv1.Operation{Status: d.Status}) {
			t.Errorf("%s: a second before its time it is %s: %s", name, d.Status.Phase, d.Status.Error)
		}
		w.facts.Now = epoch.Add(tc.want)
		if d := Next(w.op, w.facts); d.Status.Phase != platformv1.OperationFailed ||
			!strings.Contains(d.Status.Error, "not done within "+tc.want.String()) {
			t.Errorf("%s: when its time is over it is %s: %s", name, d.Status.Phase, d.Status.Error)
		}
		if d := Wait(w.op, "redis-a", outcome.Waiting(ReasonQueued, "x"), w.facts.Now); d.Status.Timeout != nil {
			t.Errorf("%s: while it waits it has %v", name, d.Status.Timeout)
		}
	}
	record := worldOf(text)
	record.op.Labels = map[string]string{platformv1.TriggerLabel: string(platformv1.TriggerSpec)}
	if d := Start(record.op, "redis-a", record.facts, nil); d.Status.Timeout != nil {
		t.Errorf("a record has %v", d.Status.Timeout)
	}
}

// An Operation that waits for an approval before it does anything stands aside, and joins the queue again once that is
// given.
func TestAnApprovalStandsAside(t *testing.T) {
	w := worldOf(approved, pod(0, platformv1.RoleReadWrite))
	w.op.Spec.Author = "ada"
	w.op.CreationTimestamp = metav1.NewTime(epoch)
	w.op.Status = Start(w.op, "redis-a", w.facts, nil).Status
	if !StandsAside(w.op) || WaitsInQueue(w.op, w.facts) {
		t.Fatalf("it does not stand aside: %+v", w.op.Status)
	}
	other := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other",
		CreationTimestamp: metav1.NewTime(epoch.Add(time.Minute))}}
	both := []*platformv1.Operation{w.op, other}
	if first := (Queue{Operations: both}).Ahead(other); first != nil {
		t.Errorf("another one waits for %s", first.Name)
	}
	w.op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	if first := (Queue{Operations: both}).Ahead(other); first != w.op || !WaitsInQueue(w.op, w.facts) {
		t.Errorf("once approved it does not take its turn: ahead of the other is %v", first)
	}
	other.Status.Phase = platformv1.OperationRunning
	if first := (Queue{Operations: both}).Ahead(w.op); first != other {
		t.Errorf("it does not wait for the one that runs in the meantime: %v", first)
	}
	w.op.Status = Wait(w.op, "redis-a", outcome.Waiting(ReasonQueued, "x"), w.facts.Now).Status
	if w.op.Status.Phase != platformv1.OperationPending || w.op.Status.StartTime != nil || len(w.op.Status.Steps) != 0 {
		t.Errorf("while it waits its status is %+v", w.op.Status)
	}
	w.facts.Now = epoch.Add(24 * time.Hour)
	d := Start(w.op, "redis-a", w.facts, nil)
	if len(d.Status.Steps) != 2 || d.Status.Steps[0].Phase != platformv1.OperationSucceeded || d.Effect == nil ||
		StandsAside(&platformv1.Operation{Status: d.Status}) {
		t.Errorf("it does not go on: %+v", d.Status)
	}
	// One that did something before it asks holds what it has.
	w.op.Status = platformv1.OperationStatus{Phase: platformv1.OperationAwaitingApproval, Steps: []platformv1.StepStatus{
		{Name: "note", Phase: platformv1.OperationSucceeded}, {Name: "ask", Phase: platformv1.OperationRunning}}}
	if StandsAside(w.op) {
		t.Error("one that has begun stands aside")
	}
}
