// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// reconcileEntity claims an Entity, or says that its Application is absent. One that nobody claimed has no finalizer of
// ours.
func (c *Controller) reconcileEntity(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	entity := &platformv1.Entity{}
	if is, err := c.unclaimedObject(ctx, request.NamespacedName, "Entity", entity); err != nil || !is {
		return reconcile.Result{}, err
	}
	app := metadataOf("Application")
	err := c.live.Get(ctx, types.NamespacedName{Namespace: entity.Namespace, Name: entity.Spec.ApplicationRef.Name}, app)
	switch {
	case apierrors.IsNotFound(err):
		return c.withoutApplication(ctx, entity)
	case err != nil:
		return reconcile.Result{}, err
	case app.Labels[platformv1.DomainLabel] == c.Domain:
		return reconcile.Result{}, overtaken(c.claim(ctx, entity, nil))
	}
	// That of another operator, or of none yet: then its claim wakes us.
	return reconcile.Result{}, nil
}

// withoutApplication says that the Application is absent; one that appears wakes the Entity.
func (c *Controller) withoutApplication(ctx context.Context, entity *platformv1.Entity) (reconcile.Result, error) {
	v := reportAfter(unknownAfter, c.age(entity), platformv1.ReasonApplicationNotFound, fmt.Sprintf(
		"there is no Application %q in namespace %q: create it, or name another one (a typed object's is \"<kind>-<name>\")",
		entity.Spec.ApplicationRef.Name, entity.Namespace))
	if v.action == actWait {
		return reconcile.Result{RequeueAfter: v.after}, nil
	}
	if ready := conditions.Get(entity, platformv1.ReadyCondition); ready != nil && ready.Reason == v.problem.Reason() &&
		ready.ObservedGeneration == entity.Generation {
		return reconcile.Result{}, nil
	}
	before := entity.DeepCopy()
	conditions.Report(entity, v.problem, "")
	entity.Status.Phase = platformv1.PhaseStalled
	return c.writeStatus(ctx, before, entity)
}
