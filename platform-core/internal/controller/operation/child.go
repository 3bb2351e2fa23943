// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// inlineChild creates the Operation of an inline template for a step, or looks how it stands when it exists, and has it
// suspended as its parent is.
func (c *Controller) inlineChild(ctx context.Context, parent *platformv1.Operation,
	wanted *opsflow.Child) (*opsflow.Answer, error) {
	child, err := c.findChild(ctx, parent, wanted)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("Operation %q is gone before it ended: somebody deleted it", wanted.Name), nil
	case refused(err):
		return refuse("Operation %q cannot be created: %v", wanted.Name, err), nil
	case err != nil:
		return nil, fmt.Errorf("cannot create or read Operation %q: %w", wanted.Name, err)
	case !metav1.IsControlledBy(child, parent), child.Spec.Template != wanted.Spec.Template:
		return refuse("there is an Operation %q that is not of this step: delete it", child.Name), nil
	}
	return &opsflow.Answer{Child: child.Status}, c.suspendChild(ctx, parent, child)
}

// findChild reads the Operation of a step, or creates it. The cache leaves out what became of those that have ended,
// which are read from the API server.
func (c *Controller) findChild(ctx context.Context, parent *platformv1.Operation,
	wanted *opsflow.Child) (*platformv1.Operation, error) {
	child := &platformv1.Operation{}
	key := client.ObjectKey{Namespace: parent.Namespace, Name: wanted.Name}
	err := c.client.Get(ctx, key, child)
	if err == nil && !opsflow.Finished(child) || err != nil && !apierrors.IsNotFound(err) {
		return child, err
	}
	if err != nil && wanted.Verb == opsflow.ChildRun {
		child = &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels: map[string]string{platformv1.DomainLabel: c.Domain, platformv1.ManagedByLabel: platformv1.ManagedBy},
		}, Spec: wanted.Spec}
		if trigger := parent.Labels[platformv1.TriggerLabel]; trigger != "" {
			child.Labels[platformv1.TriggerLabel] = trigger
		}
		if err := controllerutil.SetControllerReference(parent, child, c.client.Scheme()); err != nil {
			return nil, err
		}
		if err := c.client.Create(ctx, child); !apierrors.IsAlreadyExists(err) {
			return child, err
		}
	}
	child = &platformv1.Operation{}
	return child, c.live.Get(ctx, key, child)
}

// suspendChild has the Operation of a step suspended as its parent is.
func (c *Controller) suspendChild(ctx context.Context, parent, child *platformv1.Operation) error {
	if opsflow.Finished(child) || child.Spec.Suspend == parent.Spec.Suspend {
		return nil
	}
	changed := child.DeepCopy()
	changed.Spec.Suspend = parent.Spec.Suspend
	if err := c.client.Patch(ctx, changed, client.MergeFrom(child), client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("cannot change suspend of Operation %q: %w", child.Name, err)
	}
	return nil
}
