// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// handOver gives what an object declares to the one that asked for it, and deletes the object once it has nothing left.
// It is the turn of the object itself, so that nobody else writes for it meanwhile, and each write is refused when what
// it was decided on has changed: a controller that dies anywhere in between goes on here. hands is false for an object
// that nobody asked.
func (r *reconciler[T]) handOver(ctx context.Context, obj T) (o outcome.Outcome, hands bool) {
	mark := obj.GetAnnotations()[platformv1.AdoptedByAnnotation]
	if mark == "" {
		return outcome.Done(), false
	}
	to, err := r.successor(ctx, obj, mark)
	switch {
	case err != nil:
		return report(obj, unchanged, outcome.Failed(err)), true
	case to == nil:
		// It is gone, or never asked: this object goes on.
		return report(obj, unchanged, retried(r.mark(ctx, obj, ""))), true
	}
	o = r.give(ctx, obj, to)
	if o.Kind() != outcome.KindDone {
		return report(obj, unchanged, o), true
	}
	if err := r.apply.Delete(ctx, obj); err != nil {
		return report(obj, unchanged, outcome.Failed(err)), true
	}
	return report(obj, platformv1.PhaseDeleting, outcome.Waiting(platformv1.ReasonDeleting,
		nameIn(mark)+" has its instance")), true
}

// successor reads the object that a mark names; nil when there is none that asks for the instance of this one.
func (r *reconciler[T]) successor(ctx context.Context, obj T, mark string) (client.Object, error) {
	parts := strings.Split(mark, "/")
	if len(parts) != 3 {
		return nil, nil
	}
	to, err := r.sibling(parts[0])
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	gvk, err := apiutil.GVKForObject(to, r.client.Scheme())
	if err != nil {
		return nil, err
	}
	err = r.live.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: parts[1]}, to)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read %s %q: %w", parts[0], parts[1], err)
	}
	asks := r.adopters[gvk]
	if err != nil || asks == nil || to.GetUID() != types.UID(parts[2]) || to.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if of := asks(to); of.Kind != r.kind.Name() || of.Name != obj.GetName() {
		return nil, nil
	}
	to.GetObjectKind().SetGroupVersionKind(gvk)
	return to, nil
}

// give makes another object the owner of what this one declares: the Application, from which on there is no way back,
// then the Entities.
func (r *reconciler[T]) give(ctx context.Context, obj T, to client.Object) outcome.Outcome {
	app := &platformv1.Application{}
	name := applicationName(r.kind, obj)
	err := r.live.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, app)
	switch {
	case apierrors.IsNotFound(err):
		// There is nothing to hand over: it is made anew, or the other object says that there is none.
		return retried(r.mark(ctx, obj, ""))
	case err != nil:
		return outcome.Failed(fmt.Errorf("cannot read Application %q: %w", name, err))
	case metav1.IsControlledBy(app, obj) && app.Status.ActiveOperation != "":
		return outcome.WaitingFor(lookAgain, platformv1.ReasonProgressing, fmt.Sprintf(
			"Operation %q has to end before the instance is handed over", app.Status.ActiveOperation))
	}
	if err := r.transfer(ctx, app, obj, to); err != nil {
		return retried(err)
	}
	var entities platformv1.EntityList
	if err := r.live.List(ctx, &entities, client.InNamespace(obj.GetNamespace())); err != nil {
		return outcome.Failed(fmt.Errorf("cannot list the Entities of %q: %w", obj.GetName(), err))
	}
	for i := range entities.Items {
		if err := r.transfer(ctx, &entities.Items[i], obj, to); err != nil {
			return retried(err)
		}
	}
	return outcome.Done()
}

// transfer makes another object the controller of what this one controls, and the fields that it declared in it those
// of the other, which can take them out then. It is refused with a conflict when that has changed since it was read.
func (r *reconciler[T]) transfer(ctx context.Context, live client.Object, obj T, to client.Object) error {
	if !metav1.IsControlledBy(live, obj) || live.GetDeletionTimestamp() != nil {
		return nil
	}
	gvk := to.GetObjectKind().GroupVersionKind()
	owner := ownerFor(gvk.Kind)
	changed := live.DeepCopyObject().(client.Object)
	references := slices.DeleteFunc(changed.GetOwnerReferences(), func(of metav1.OwnerReference) bool {
		return of.UID == obj.GetUID()
	})
	changed.SetOwnerReferences(append(references, *metav1.NewControllerRef(to, gvk)))
	fields := changed.GetManagedFields()
	for i := range fields {
		if fields[i].Manager == r.owner && fields[i].Operation == metav1.ManagedFieldsOperationApply {
			fields[i].Manager = owner
		}
	}
	changed.SetManagedFields(fields)
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	return r.client.Patch(ctx, changed, patch, client.FieldOwner(owner))
}
