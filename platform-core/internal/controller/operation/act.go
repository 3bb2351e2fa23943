// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// carryOut records a decision, brings its effect about, and goes on until there is none, or half of the time of the
// turn is over: what has come of many items by then is on record, and not lost with the turn. seen may be nil for a
// decision that ends the Operation.
func (c *Controller) carryOut(ctx context.Context, op *platformv1.Operation, seen *observation, d opsflow.Decision) (
	reconcile.Result, error) {
	for began := time.Now(); ; {
		if wait := c.hold(op, d); wait > 0 {
			return d.Outcome.Within(wait).Result()
		}
		over := d.Effect != nil && isOver(ctx, began, time.Now())
		if opsflow.NeedsRecord(op, d) || over {
			if err := c.record(ctx, op, d); err != nil {
				return reconcile.Result{}, ignoreOvertaken(err)
			}
		}
		if d.Effect == nil {
			telemetry.Outcome(owner, d.Outcome)
			return d.Outcome.Result()
		}
		if over {
			return reconcile.Result{RequeueAfter: nextTurn}, nil
		}
		answer, err := c.bringAbout(ctx, op, seen, d.Effect)
		if err != nil {
			return reconcile.Result{}, err
		}
		seen.facts.Answers[d.Effect.Key] = answer
		d = opsflow.Next(op, seen.facts)
	}
}

// nextTurn is after how long a turn follows one whose time was over.
const nextTurn = 10 * time.Millisecond

// isOver says whether more than half of the time is over that a turn had when it began.
func isOver(ctx context.Context, began, now time.Time) bool {
	deadline, limited := ctx.Deadline()
	return limited && now.Sub(began) > deadline.Sub(now)
}

// bringAbout does what a decision asks for. An error is one of the API server, to be tried again.
func (c *Controller) bringAbout(ctx context.Context, op *platformv1.Operation, seen *observation,
	effect *opsflow.Effect) (*opsflow.Answer, error) {
	if effect.Call != nil {
		ctx = agentclient.Within(ctx, seen.facts.TermOf(effect.Call.Pod))
	}
	switch {
	case effect.Call != nil && effect.Call.Action != "":
		return c.act(ctx, seen.pods[effect.Call.Pod], effect), nil
	case effect.Call != nil:
		return c.callInTurn(ctx, seen, effect)
	case effect.Child != nil:
		return c.child(ctx, op, effect.Child)
	case effect.Edit != nil:
		return c.edit(ctx, seen, effect.Edit)
	case effect.Job != nil:
		return c.job(ctx, op, seen, effect.Job)
	case effect.Rotation != nil:
		return c.rotate(ctx, seen, effect)
	case effect.Life != nil:
		return c.life(ctx, op, seen, effect.Life)
	case effect.Backup != nil:
		return c.backup(ctx, op, seen, effect.Backup)
	case effect.Drill != nil:
		return c.drill(ctx, op, seen, effect.Drill)
	case effect.HTTP != nil:
		return c.http(ctx, op, effect)
	case effect.Data != nil:
		return c.data(ctx, op, seen, effect.Data)
	case effect.Handover != nil:
		return c.handOver(ctx, op, effect)
	case effect.Rebuild != nil:
		return c.rebuildInTurn(ctx, op, seen, effect.Rebuild)
	}
	return c.object(ctx, op, effect.Object)
}

// ignoreOvertaken drops the error of a write that came too late: what was written or deleted
// in the meantime wakes us.
func ignoreOvertaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// refused says whether the API server will not have a write, whenever it is asked.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}
