// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

const innerSteps = "{name: Inner, outputs: {rows: '7'}, steps: [{name: a, apply: {apiVersion: v1, kind: ConfigMap, " +
	"name: a}}]}"

// nesting is a run whose steps run Operations of an inline template.
type nesting struct {
	op    *platformv1.Operation
	facts opsflow.Facts
}

func newNesting(t *testing.T, steps string) *nesting {
	t.Helper()
	n := &nesting{op: &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "outer", UID: "1"}}}
	n.op.Spec.Template, n.op.Spec.ServiceAccountName = "name: Outer\nsteps:\n"+
		strings.ReplaceAll(steps, "INNER", strconv.Quote(innerSteps)), "worker"
	template, refusal := opsflow.InlineTemplate(n.op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	n.facts = opsflow.Facts{Now: time.Unix(1000, 0), Template: template, Parameters: map[string]string{}}
	return n
}

// turn decides until nothing is asked for that answer does not answer, and returns what was asked of Operations.
func (n *nesting) reconcile(answer func(*opsflow.Child) *opsflow.Answer) []*opsflow.Child {
	n.facts.Answers = map[string]*opsflow.Answer{}
	var asked []*opsflow.Child
	for {
		d := opsflow.Next(n.op, n.facts)
		if n.op.Status.StartTime == nil {
			d = opsflow.Start(n.op, "", n.facts, nil)
		}
		n.op.Status = d.Status
		if d.Effect == nil {
			return asked
		}
		asked = append(asked, d.Effect.Child)
		n.facts.Answers[d.Effect.Key] = answer(d.Effect.Child)
	}
}

// in answers that an Operation is in a phase.
func in(phase platformv1.OperationPhase) func(*opsflow.Child) *opsflow.Answer {
	return func(*opsflow.Child) *opsflow.Answer {
		return &opsflow.Answer{Child: platformv1.OperationStatus{Phase: phase, Outputs: map[string]string{"rows": "7"}}}
	}
}

func TestNestedOperationIsCreatedOnceForEachAttempt(t *testing.T) {
	n := newNesting(t, "  - {name: run, retry: {limit: 1, backoff: 1s}, operation: {template: INNER}}\n")
	asked := n.reconcile(in(platformv1.OperationRunning))
	if len(asked) != 1 || asked[0].Verb != opsflow.ChildRun || asked[0].Name != "outer-run" ||
		asked[0].Spec.ServiceAccountName != "worker" {
		t.Fatalf("it asks for %+v", asked)
	}
	asked = n.reconcile(in(platformv1.OperationFailed))
	if len(asked) != 1 || asked[0].Verb != opsflow.ChildLook {
		t.Fatalf("it asks for %+v", asked)
	}
	n.facts.Now = n.facts.Now.Add(time.Minute)
	asked = n.reconcile(in(platformv1.OperationSucceeded))
	if len(asked) != 1 || asked[0].Verb != opsflow.ChildRun || asked[0].Name != "outer-run-try2" {
		t.Fatalf("it asks for %+v", asked)
	}
	if step := n.op.Status.Steps[0]; n.op.Status.Phase != platformv1.OperationSucceeded || step.Outputs["rows"] != "7" ||
		step.Outputs["operation"] != "outer-run-try2" {
		t.Errorf("it ended as %+v", n.op.Status)
	}
}

// What keeps a pod of a nested Operation from starting is said by the one that runs it.
func TestRunSaysWhatKeepsAPodOfItsNestedOperationFromStarting(t *testing.T) {
	n := newNesting(t, "  - {name: run, operation: {template: INNER}}\n")
	status := platformv1.OperationStatus{Phase: platformv1.OperationRunning, Progress: "1/1 a",
		Conditions: []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse,
			Reason: platformv1.ReasonImageUnavailable, Message: `step "a": waiting for job outer-run-a to end: no image`}}}
	n.reconcile(func(*opsflow.Child) *opsflow.Answer { return &opsflow.Answer{Child: status} })
	d := opsflow.Next(n.op, n.facts)
	want := `step "run": waiting for Operation outer-run to end (1/1 a): step "a": waiting for job outer-run-a to end: ` +
		"no image"
	if d.Outcome.Reason() != platformv1.ReasonImageUnavailable || d.Outcome.Message() != want {
		t.Errorf("it says %s: %q, want %q", d.Outcome.Reason(), d.Outcome.Message(), want)
	}
	status.Conditions[0].Reason = platformv1.ReasonProgressing
	n.reconcile(func(*opsflow.Child) *opsflow.Answer { return &opsflow.Answer{Child: status} })
	if d := opsflow.Next(n.op, n.facts); d.Outcome.Reason() != platformv1.ReasonProgressing {
		t.Errorf("it says %s: %q", d.Outcome.Reason(), d.Outcome.Message())
	}
}

func TestDeletedNestedOperationIsNotCreatedAgain(t *testing.T) {
	n := newNesting(t, "  - {name: run, forEach: '[\"x\", \"y\"]', parallelism: 2, operation: {template: INNER}}\n")
	if asked := n.reconcile(in(platformv1.OperationRunning)); len(asked) != 2 || asked[0].Name != "outer-run-1" ||
		asked[1].Name != "outer-run-2" {
		t.Fatalf("it asks for %+v", asked)
	}
	asked := n.reconcile(func(child *opsflow.Child) *opsflow.Answer {
		if child.Name == "outer-run-1" {
			return &opsflow.Answer{Failure: opsflow.FailureRefused, Problem: "it is gone"}
		}
		return in(platformv1.OperationSucceeded)(child)
	})
	for _, child := range asked {
		if child.Verb != opsflow.ChildLook {
			t.Errorf("it asks for %+v", child)
		}
	}
	if n.op.Status.Phase != platformv1.OperationFailed || !strings.Contains(n.op.Status.Error, "it is gone") {
		t.Errorf("it ended as %+v", n.op.Status)
	}
}

func TestCancelledRunWaitsForItsNestedOperations(t *testing.T) {
	n := newNesting(t, "  - {name: run, operation: {template: INNER}}\n")
	n.reconcile(in(platformv1.OperationRunning))
	n.op.Spec.Cancel = true
	if asked := n.reconcile(in(platformv1.OperationRunning)); len(asked) != 1 || asked[0].Verb != opsflow.ChildLook ||
		n.op.Status.Ending != platformv1.EndingCancelled {
		t.Fatalf("it asks for %+v, and is %+v", asked, n.op.Status)
	}
	n.reconcile(in(platformv1.OperationCancelled))
	if n.op.Status.Phase != platformv1.OperationCancelled {
		t.Errorf("it ended as %+v", n.op.Status)
	}
}

func TestOutputThatCannotBeComputedFailsTheRun(t *testing.T) {
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1"}}
	op.Spec.Template = "name: A\noutputs: {by: tasks.ask.outputs.by}\nsteps: [{name: ask, when: 'false', approval: " +
		"{message: x}}]\n"
	template, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	d := opsflow.Start(op, "", opsflow.Facts{Now: time.Unix(1000, 0), Template: template}, nil)
	if d.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(d.Status.Error, `output "by" cannot be computed`) {
		t.Errorf("it ended as %+v", d.Status)
	}
}
