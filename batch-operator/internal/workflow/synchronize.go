// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// synchronize acquires what a run has to hold before it begins, and releases it when the run has ended. waiting says
// for what it waits; empty for nothing.
func (c *Controller) synchronize(
	ctx context.Context, wf *batchv1.Workflow, op *platformv1.Operation,
) (waiting string, err error) {
	s := &wf.Status
	switch {
	case wf.Spec.Synchronization == nil || finished(s):
		return "", nil
	case op == nil:
		if s.OperationUID == "" {
			return "", nil
		}
		return "", c.locks.Release(ctx, wf.Namespace, wf.Spec.Synchronization, s.OperationUID)
	case op.Status.Phase.Ended():
		return "", c.locks.Release(ctx, wf.Namespace, wf.Spec.Synchronization, op.UID)
	case !op.Spec.Suspend || wf.Spec.Suspend || ends(wf) || op.Spec.Cancel:
		// It has begun, or is not to begin.
		return "", nil
	case !op.DeletionTimestamp.IsZero():
		return fmt.Sprintf("waiting for Operation %q, which is being deleted, to be gone", op.Name), nil
	}
	return c.locks.Acquire(ctx, op)
}

// mayWait says whether a Workflow of a phase may be waiting: the cache has the phase of a moment before.
func mayWait(phase batchv1.WorkflowPhase) bool {
	return phase == "" || phase == batchv1.WorkflowPending || phase == batchv1.WorkflowSuspended
}
