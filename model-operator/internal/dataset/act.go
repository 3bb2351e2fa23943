// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// act carries a plan out. It may be cut off anywhere: what is decided afterwards is the same.
func (c *Controller) act(ctx context.Context, ds *aiv1.Dataset, p plan) error {
	adds := p.finalizer && !controllerutil.ContainsFinalizer(ds, aiv1.DatasetClaimsFinalizer) &&
		ds.DeletionTimestamp.IsZero()
	drops := !p.finalizer && controllerutil.ContainsFinalizer(ds, aiv1.DatasetClaimsFinalizer)
	if adds || drops || len(p.claims)+len(p.operations)+len(p.remove)+len(p.discard) > 0 {
		if err := c.apply.Current(ctx, ds); err != nil {
			return err
		}
	}
	if adds {
		if err := c.finalize(ctx, ds, controllerutil.AddFinalizer); err != nil {
			return err
		}
	}
	for _, claim := range p.claims {
		if _, err := c.apply.Create(ctx, claim); err != nil {
			return err
		}
	}
	for _, op := range p.operations {
		if err := controllerutil.SetControllerReference(ds, op, c.client.Scheme()); err != nil {
			return err
		}
		if _, err := c.apply.Create(ctx, op); err != nil {
			return err
		}
	}
	for _, name := range p.cancel {
		if err := c.apply.CancelOperation(ctx, ds.Namespace, name); err != nil {
			return err
		}
	}
	for _, claim := range p.remove {
		if err := c.apply.Delete(ctx, claim); err != nil {
			return err
		}
	}
	for _, pod := range p.discard {
		if err := c.apply.Delete(ctx, pod); err != nil {
			return err
		}
	}
	if drops {
		return c.finalize(ctx, ds, controllerutil.RemoveFinalizer)
	}
	return nil
}

// finalize adds or removes the finalizer. Whoever adds one meanwhile keeps it.
func (c *Controller) finalize(ctx context.Context, ds *aiv1.Dataset, change func(client.Object, string) bool) error {
	changed := ds.DeepCopy()
	change(changed, aiv1.DatasetClaimsFinalizer)
	err := c.client.Patch(ctx, changed, client.MergeFromWithOptions(ds, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(owner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot change the finalizers of Dataset %q: %w", ds.Name, err)
	}
	return nil
}
