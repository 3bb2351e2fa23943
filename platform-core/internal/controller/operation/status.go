// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// hold returns how long a decision is held back that only tells how far the instance is; 0 when it is to be written.
func (c *Controller) hold(op *platformv1.Operation, d opsflow.Decision) time.Duration {
	key := client.ObjectKeyFromObject(op)
	if !opsflow.OnlyProgress(op, d) {
		c.pace.Forget(key)
		return 0
	}
	return c.pace.Wait(key)
}

// record writes a decision into the status, when that changes, and tells of it. op becomes what was
// written. The patch is bound to the version that the decision was made on.
func (c *Controller) record(ctx context.Context, op *platformv1.Operation, d opsflow.Decision) error {
	before := op.DeepCopy()
	after := op.DeepCopy()
	after.Status = d.Status
	conditions.Report(after, d.Outcome, "every step succeeded")
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, after, bound); err != nil {
		return fmt.Errorf("cannot write the status of Operation %q: %w", client.ObjectKeyFromObject(op), err)
	}
	c.written.set(after)
	*op = *after
	c.tell(before, op)
	telemetry.Operation(before, op)
	return nil
}
