// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
)

// act creates, cancels and deletes runs. A run is created once, whatever crashes: its name follows from its time.
func (c *Controller) act(ctx context.Context, cj *batchv1.CronJob, text string, p plan) error {
	if len(p.create) > 0 {
		if err := c.apply.Current(ctx, cj); err != nil {
			return err
		}
	}
	for _, one := range p.create {
		op := operationOf(cj, text, one)
		if err := semaphore.Mark(op, cj.Spec.Synchronization); err != nil {
			return err
		}
		if err := controllerutil.SetControllerReference(cj, op, c.client.Scheme()); err != nil {
			return err
		}
		if _, err := c.apply.Create(ctx, op); err != nil {
			return fmt.Errorf("cannot create the run %q: %w", op.Name, err)
		}
	}
	for _, name := range p.cancel {
		if err := c.apply.CancelOperation(ctx, cj.Namespace, name); err != nil {
			return err
		}
	}
	for _, name := range p.remove {
		op := &platformv1.Operation{}
		op.Namespace, op.Name = cj.Namespace, name
		if err := c.client.Delete(ctx, op, client.PropagationPolicy("Background")); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot delete the run %q: %w", name, err)
		}
	}
	return nil
}
