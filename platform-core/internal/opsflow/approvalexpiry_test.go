// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// An approval expires after the timeout of its step, counted from when it was first asked for, whatever else happens
// until then. Another attempt could not be in time, and the timeout of the run does not count meanwhile.
func TestApprovalExpires(t *testing.T) {
	const minutes = 60
	approved, rejected := platformv1.OperationApproved, platformv1.OperationRejected
	for title, c := range map[string]struct {
		count string
		// decisions by the minute after which they are there.
		decisions map[int]map[string]platformv1.OperationDecision
		phase     platformv1.OperationPhase
		says      string
	}{
		"nobody": {"1", nil, platformv1.OperationFailed,
			`step "ask" is not done within 1h0m0s: it waited for somebody else than ada to approve: sign it`},
		"one of two": {"2", map[int]map[string]platformv1.OperationDecision{30: {"bob": approved}},
			platformv1.OperationFailed, `step "ask" is not done within 1h0m0s: it waited for 2 users other than ada to ` +
				"approve, 1 of whom have: sign it"},
		"two in time": {"2", map[int]map[string]platformv1.OperationDecision{30: {"bob": approved},
			59: {"bob": approved, "eve": approved}}, platformv1.OperationRunning, ""},
		"one rejects after another has approved": {"2", map[int]map[string]platformv1.OperationDecision{
			30: {"bob": approved}, 31: {"bob": approved, "eve": rejected}}, platformv1.OperationFailed,
			"eve rejected it: sign it"},
	} {
		t.Run(title, func(t *testing.T) {
			op := inlineOperation()
			op.Spec.Template = strings.Replace(inlineSteps, "{name: ask, approval: {message: sign it}}",
				"{name: ask, timeout: 1h, retry: {limit: 3}, approval: {message: sign it, count: "+c.count+"}}", 1)
			template, refusal := opsflow.InlineTemplate(op.Spec)
			if refusal != nil {
				t.Fatal(refusal)
			}
			begin := time.Unix(1000, 0)
			for minute := 0; minute <= 2*minutes && !opsflow.Finished(op); minute++ {
				if decisions := c.decisions[minute]; decisions != nil {
					op.Spec.Approvals = decisions
				}
				facts := opsflow.Facts{Now: begin.Add(time.Duration(minute) * time.Minute), Target: opsflow.Subject(op),
					Template: template, Parameters: opsflow.ParametersInForce(op.Spec, template),
					Answers: map[string]*opsflow.Answer{}}
				d := opsflow.Next(op, facts)
				if opsflow.WaitsInQueue(op, facts) {
					d = opsflow.Start(op, "", facts, nil)
				}
				op.Status = d.Status
				if op.Status.Phase != platformv1.OperationAwaitingApproval {
					break
				}
				if left := time.Duration(minutes-minute) * time.Minute; d.Outcome.After() != left {
					t.Fatalf("after %d minutes it looks again in %s, want %s", minute, d.Outcome.After(), left)
				}
			}
			if op.Status.Phase != c.phase || op.Status.Error != c.says {
				t.Errorf("it is %s: %q, want %s: %q", op.Status.Phase, op.Status.Error, c.phase, c.says)
			}
			if step := op.Status.Steps[0]; c.says != "" && (step.Phase != platformv1.OperationFailed || step.Message != c.says) {
				t.Errorf("the step is %+v", step)
			}
		})
	}
}
