// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

const inlineSteps = `
name: Sign
parameters:
  to: {schema: '=~"^[a-z]+$"'}
steps:
  - {name: ask, approval: {message: sign it}}
  - {name: sign, apply: {apiVersion: v1, kind: ConfigMap, name: '${parameters.to}',
      content: {data: {by: '${steps.ask.outputs.by}'}}}}
`

func inlineOperation() *platformv1.Operation {
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sign", UID: "1"},
		Spec: platformv1.OperationSpec{Template: inlineSteps, Author: "ada", ServiceAccountName: "signer",
			Parameters: platformv1.Parameters{"to": "copy"}},
	}
}

func TestCheckInlineRefuses(t *testing.T) {
	for title, c := range map[string]struct {
		change func(*platformv1.OperationSpec)
		want   string
	}{
		"no account": {func(s *platformv1.OperationSpec) { s.ServiceAccountName = "" },
			`step "sign" of the inline template needs rights in the namespace: set serviceAccountName`},
		"no parameter": {func(s *platformv1.OperationSpec) { s.Parameters = nil },
			`parameter "to" of template "Sign" is missing`},
		"unknown parameter": {func(s *platformv1.OperationSpec) { s.Parameters["from"] = "x" },
			`template "Sign" has no parameter "from"`},
		"timeout": {func(s *platformv1.OperationSpec) { s.Timeout = &metav1.Duration{} }, "timeout 0s is not allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			op := inlineOperation()
			c.change(&op.Spec)
			template, refusal := opsflow.InlineTemplate(op.Spec)
			if refusal != nil {
				t.Fatal(refusal)
			}
			if refusal = opsflow.CheckInline(op, template); refusal == nil || !strings.Contains(refusal.Message, c.want) {
				t.Errorf("the refusal is %v, want one with %q", refusal, c.want)
			}
		})
	}
}

func TestInlineOperationGoesThroughItsSteps(t *testing.T) {
	op := inlineOperation()
	template, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if refusal := opsflow.CheckInline(op, template); refusal != nil {
		t.Fatal(refusal)
	}
	facts := opsflow.Facts{Now: time.Unix(1000, 0), Target: opsflow.Subject(op), Template: template,
		Parameters: opsflow.ParametersInForce(op.Spec, template), Answers: map[string]*opsflow.Answer{}}
	d := opsflow.Start(op, "", facts, nil)
	if d.Status.Phase != platformv1.OperationAwaitingApproval || d.Status.Application != "" {
		t.Fatalf("it began as %+v", d.Status)
	}
	op.Status = d.Status
	op.Spec.Approval = &platformv1.OperationApproval{By: "bob", Decision: platformv1.OperationApproved}
	if !opsflow.WaitsInQueue(op, facts) {
		t.Error("an approved Operation that has done nothing does not begin")
	}
	d = opsflow.Start(op, "", facts, nil)
	if d.Effect == nil || d.Effect.Object == nil || d.Effect.Object.Name != "copy" {
		t.Fatalf("the effect is %+v", d.Effect)
	}
	if by := d.Effect.Object.Content["data"].(map[string]any)["by"]; by != "bob" {
		t.Errorf("the object is signed by %v", by)
	}
	facts.Answers[d.Effect.Key] = &opsflow.Answer{}
	op.Status = d.Status
	if d = opsflow.Next(op, facts); d.Status.Phase != platformv1.OperationSucceeded {
		t.Errorf("it ended as %+v", d.Status)
	}
}

// Each step of a run with several approvals: who has decided, and what is waited for or came of it.
func TestApprovalBySeveralUsers(t *testing.T) {
	approved, rejected := platformv1.OperationApproved, platformv1.OperationRejected
	for title, c := range map[string]struct {
		approval  *platformv1.OperationApproval
		approvals map[string]platformv1.OperationDecision
		phase     platformv1.OperationPhase
		want      string
	}{
		"nobody": {nil, nil, platformv1.OperationAwaitingApproval,
			"2 users other than ada to approve, 0 of whom have: sign it"},
		"one": {nil, map[string]platformv1.OperationDecision{"bob": approved},
			platformv1.OperationAwaitingApproval, "1 of whom have"},
		"the same twice": {&platformv1.OperationApproval{By: "bob", Decision: approved},
			map[string]platformv1.OperationDecision{"bob": approved}, platformv1.OperationAwaitingApproval, "1 of whom have"},
		"two": {nil, map[string]platformv1.OperationDecision{"eve": approved, "bob": approved},
			platformv1.OperationRunning, "bob, eve"},
		"one of each": {&platformv1.OperationApproval{By: "bob", Decision: approved},
			map[string]platformv1.OperationDecision{"eve": approved}, platformv1.OperationRunning, "bob, eve"},
		"one rejects": {nil, map[string]platformv1.OperationDecision{"eve": rejected, "bob": approved},
			platformv1.OperationFailed, "eve rejected it: sign it"},
		"one rejects with a reason": {&platformv1.OperationApproval{By: "eve", Decision: rejected, Reason: "too dear"}, nil,
			platformv1.OperationFailed, `eve rejected it since "too dear": sign it`},
		"author as well": {nil, map[string]platformv1.OperationDecision{"ada": approved, "bob": approved, "eve": approved},
			platformv1.OperationFailed, "ada cannot approve his own Operation"},
		"changes his mind": {&platformv1.OperationApproval{By: "bob", Decision: approved},
			map[string]platformv1.OperationDecision{"bob": rejected, "eve": approved},
			platformv1.OperationFailed, "bob rejected it"},
	} {
		t.Run(title, func(t *testing.T) {
			op := inlineOperation()
			op.Spec.Template = strings.Replace(inlineSteps, "sign it", "sign it, count: 2", 1)
			op.Spec.Approval, op.Spec.Approvals = c.approval, c.approvals
			template, refusal := opsflow.InlineTemplate(op.Spec)
			if refusal != nil {
				t.Fatal(refusal)
			}
			facts := opsflow.Facts{Now: time.Unix(1000, 0), Target: opsflow.Subject(op), Template: template,
				Parameters: opsflow.ParametersInForce(op.Spec, template), Answers: map[string]*opsflow.Answer{}}
			d := opsflow.Start(op, "", facts, nil)
			step := d.Status.Steps[0]
			if d.Status.Phase != c.phase || !strings.Contains(step.Message+step.Outputs["by"], c.want) {
				t.Errorf("it is %s: %q with %v, want %s and %q", d.Status.Phase, step.Message, step.Outputs, c.phase, c.want)
			}
		})
	}
}
