// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// act carries a plan out.
func (c *Controller) act(ctx context.Context, wf *batchv1.Workflow, p plan) error {
	if p.create != nil {
		return c.create(ctx, wf, p.create)
	}
	changes := map[string]any{}
	if p.suspend != nil {
		changes["suspend"] = *p.suspend
	}
	if p.cancel != "" {
		changes["cancel"] = true
	}
	if len(changes) > 0 {
		if err := c.change(ctx, wf, changes); err != nil {
			return err
		}
	}
	if p.terminate != nil {
		return c.terminate(ctx, p.terminate)
	}
	if !p.remove {
		return nil
	}
	err := c.client.Delete(ctx, wf, client.PropagationPolicy("Background"), client.Preconditions{UID: &wf.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete Workflow %q: %w", client.ObjectKeyFromObject(wf), err)
	}
	return nil
}

// terminate deletes the Operation of a run as it was mirrored: what it did since then would not be on record. After a
// conflict it is mirrored again.
func (c *Controller) terminate(ctx context.Context, op *platformv1.Operation) error {
	if op.DeletionTimestamp != nil {
		return nil
	}
	err := c.client.Delete(ctx, op, client.PropagationPolicy("Background"),
		client.Preconditions{UID: &op.UID, ResourceVersion: &op.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete Operation %q: %w", client.ObjectKeyFromObject(op), err)
	}
	return nil
}

// create creates the Operation of an attempt, once.
func (c *Controller) create(ctx context.Context, wf *batchv1.Workflow, op *platformv1.Operation) error {
	if err := c.apply.Current(ctx, wf); err != nil {
		return err
	}
	if err := controllerutil.SetControllerReference(wf, op, c.client.Scheme()); err != nil {
		return err
	}
	if _, err := c.apply.Create(ctx, op); err != nil {
		return fmt.Errorf("cannot create the Operation %q: %w", op.Name, err)
	}
	return nil
}

// change patches the spec of the Operation under way.
func (c *Controller) change(ctx context.Context, wf *batchv1.Workflow, spec map[string]any) error {
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	op := &platformv1.Operation{}
	op.Namespace, op.Name = wf.Namespace, wf.Status.Operation
	err = c.client.Patch(ctx, op, client.RawPatch(types.MergePatchType, data), client.FieldOwner(owner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot change the Operation %q: %w", op.Name, err)
	}
	return nil
}
