// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// observeInline reads what an Operation with an inline template is decided on. There is no instance, and so no queue,
// no plugin and no maintenance window.
func (c *Controller) observeInline(ctx context.Context,
	op *platformv1.Operation) (*observation, *opsflow.Refusal, error) {
	template, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal != nil {
		return nil, refusal, nil
	}
	if !opsflow.Running(op) {
		if refusal := opsflow.CheckInline(op, template); refusal != nil {
			return nil, refusal, nil
		}
	}
	seen := &observation{bundle: &plugin.Bundle{}, facts: opsflow.Facts{
		Now: c.Now(), Target: opsflow.Subject(op), Template: template,
		Parameters: opsflow.ParametersInForce(op.Spec, template),
		Answers:    map[string]*opsflow.Answer{}, Lists: map[string][]string{},
	}}
	var err error
	seen.facts.ParentEnded, err = c.parentEnded(ctx, op)
	return seen, nil, err
}

// startInline begins an Operation with an inline template. It waits for no other.
func (c *Controller) startInline(ctx context.Context, op *platformv1.Operation,
	seen *observation) (reconcile.Result, error) {
	earlier, refusal, err := c.earlier(ctx, op, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	if refusal == nil {
		refusal = opsflow.Preconditions(seen.facts)
	}
	if refusal != nil {
		return c.carryOut(ctx, op, seen, opsflow.Fail(op, refusal, c.Now()))
	}
	if err := c.holdArtifacts(ctx, op, seen); err != nil {
		return reconcile.Result{}, ignoreOvertaken(err)
	}
	return c.carryOut(ctx, op, seen, opsflow.Start(op, "", seen.facts, earlier))
}
