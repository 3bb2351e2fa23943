// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// outdated says why the safety copy of what pods have cannot stand for it when they go to other volumes; empty when it can, or when none was asked for.
// One from before the Operation began lacks what clients wrote since.
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
	case backup.Status.CompletionTime.Before(op.Status.StartTime):
		return fmt.Sprintf("the safety copy, Backup %q, was complete before this Operation began, and lacks what was written since", wanted.Copy), nil
	}
	return "", nil
}
