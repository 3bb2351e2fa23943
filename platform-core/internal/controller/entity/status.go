// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// eventRepaired is the reason of the event about an object that somebody changed.
const eventRepaired = "DriftRepaired"

// report writes what became of each Entity.
func (c *Controller) report(ctx context.Context, seen *observation) outcome.Outcome {
	outcomes := make([]outcome.Outcome, len(seen.items))
	tasks := make([]func() error, 0, len(seen.items))
	for i, it := range seen.items {
		tasks = append(tasks, func() error {
			outcomes[i] = c.reportOne(ctx, it)
			return nil
		})
	}
	_ = frame.Together(tasks...) // Each has its own outcome.
	return outcome.Worst(outcomes...)
}

// reportOne writes the status of one Entity, or lets it go.
func (c *Controller) reportOne(ctx context.Context, it *item) outcome.Outcome {
	switch {
	case it.release:
		return ended(c.letGo(ctx, it))
	case it.outcome == nil:
		return outcome.Done()
	}
	if it.absent {
		it.entity.Status.Origin = ""
	}
	o := it.told()
	if o.Kind() == outcome.KindFailed && overtaken(o.Err()) {
		return ended(o.Err())
	}
	if err := c.finalize(ctx, it); err != nil {
		return ended(err)
	}
	conditions.Report(it.entity, o, "the object in the middleware matches the spec, as read back")
	it.entity.Status.Phase = phaseOf(it.entity)
	if err := c.writeStatus(ctx, it, it.entity.DeepCopy()); err != nil {
		return ended(err)
	}
	return o
}

// letGo takes the finalizer away.
func (c *Controller) letGo(ctx context.Context, it *item) error {
	if !it.finalizer() {
		return nil
	}
	changed := it.before.DeepCopy()
	controllerutil.RemoveFinalizer(changed, platformv1.EntityFinalizer)
	return c.writeMeta(ctx, it, changed)
}

// ended is the outcome of a write: one that came too late is no failure, and is made anew on what is there then.
func ended(err error) outcome.Outcome {
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return outcome.Done()
	case apierrors.IsConflict(err):
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, "it was changed at the same time, and is "+
			"reconciled again")
	}
	return outcome.Failed(err)
}

// phaseOf is one word for printing.
func phaseOf(entity *platformv1.Entity) platformv1.Phase {
	switch {
	case !entity.DeletionTimestamp.IsZero():
		return platformv1.PhaseDeleting
	case conditions.IsTrue(entity, platformv1.ReadyCondition):
		return platformv1.PhaseReady
	case conditions.IsTrue(entity, platformv1.StalledCondition):
		return platformv1.PhaseStalled
	case entity.Status.Applied == "":
		return platformv1.PhaseCreating
	}
	return platformv1.PhaseUpdating
}
