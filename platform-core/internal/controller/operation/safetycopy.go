// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// longestCopyAge is how old a safety copy is at most when pods leave what it is of. Clients write until then, and an
// Operation may wait long before its swap: for its plugin, or for an operator.
const longestCopyAge = 10 * time.Minute

// outdated says why the safety copy of what pods have cannot stand for it when they go to other volumes; empty when it
// can, or when none was asked for. One from before the Operation began, or that is older than some minutes, lacks what
// clients wrote since.
func (c *Controller) outdated(ctx context.Context, op *platformv1.Operation, wanted *opsflow.Data) (string, error) {
	if wanted.Copy == "" {
		return "", nil
	}
	backup := &platformv1.Backup{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Copy}, backup)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the safety copy, Backup %q, was deleted", wanted.Copy), nil
	case err != nil:
		return "", fmt.Errorf("cannot read Backup %q: %w", wanted.Copy, err)
	case backup.Status.CompletionTime == nil:
		return fmt.Sprintf("the safety copy, Backup %q, is not complete", wanted.Copy), nil
	case backup.Status.CompletionTime.Before(op.Status.StartTime):
		return fmt.Sprintf("the safety copy, Backup %q, was complete before this Operation began, and lacks what was "+
			"written since", wanted.Copy), nil
	case c.Now().Sub(backup.Status.CompletionTime.Time) > longestCopyAge:
		return fmt.Sprintf("the safety copy, Backup %q, was complete more than %s ago, and lacks what was written since",
			wanted.Copy, longestCopyAge), nil
	}
	return "", nil
}
