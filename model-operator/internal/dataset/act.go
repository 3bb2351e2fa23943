// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/zeroinfra/platform-core/sdk/typed"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// act carries a plan out. It may be cut off anywhere: what is decided afterwards is the same.
func (c *Controller) act(ctx context.Context, ds *aiv1.Dataset, p plan) error {
	adds, drops := changesOf(ds, p)
	if len(adds)+len(drops)+len(p.claims)+len(p.operations)+len(p.remove)+len(p.discard) > 0 {
		if err := c.apply.Current(ctx, ds); err != nil {
			return err
		}
	}
	if len(adds) > 0 {
		if err := c.finalize(ctx, ds, adds, controllerutil.AddFinalizer); err != nil {
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
	if len(drops) > 0 {
		return c.finalize(ctx, ds, drops, controllerutil.RemoveFinalizer)
	}
	return nil
}

// changesOf are the finalizers that a Dataset lacks, which the API server takes only while it is not being deleted, and
// those that it has no more need of.
func changesOf(ds *aiv1.Dataset, p plan) (adds, drops []string) {
	wanted := map[string]bool{aiv1.DatasetClaimsFinalizer: p.finalizer, typed.InUseFinalizer: p.used}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch has := controllerutil.ContainsFinalizer(ds, name); {
		case wanted[name] && !has && ds.DeletionTimestamp.IsZero():
			adds = append(adds, name)
		case !wanted[name] && has:
			drops = append(drops, name)
		}
	}
	return adds, drops
}

// finalize adds or removes finalizers. Whoever adds one meanwhile keeps it.
func (c *Controller) finalize(ctx context.Context, ds *aiv1.Dataset, names []string,
	change func(client.Object, string) bool) error {
	changed := ds.DeepCopy()
	for _, name := range names {
		change(changed, name)
	}
	err := c.client.Patch(ctx, changed, client.MergeFromWithOptions(ds, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(owner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot change the finalizers of Dataset %q: %w", ds.Name, err)
	}
	return nil
}
