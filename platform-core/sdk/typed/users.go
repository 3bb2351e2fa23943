// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// InUseFinalizer keeps an object that others use. It is there only while one does.
const InUseFinalizer = "platform.zeroinfra.github.com/in-use"

// User is an object that uses another one.
type User = client.Object

// Used is a capability of a kind whose objects others in the same namespace use, and which stay while they do: one that
// is deleted meanwhile says who uses it, and goes with the last user.
type Used[T Object] interface {
	// UserKinds returns the kinds of the users, which the operator serves. It needs the rights to list and watch them.
	UserKinds() []schema.GroupVersionKind
	// UsedBy returns the names of the objects of the kind that another object uses.
	UsedBy(user User) []string
	// ReportUsers fills in the part of the status that is about the users, which come by kind and name. It is called
	// before Compile, which may go by that part.
	ReportUsers(T, []User)
}

// watchUsers has objects of a kind be reconciled when what uses them changes.
func (r registration[T]) watchUsers(mgr ctrl.Manager, controller *builder.Builder) (*builder.Builder, error) {
	used, ok := r.kind.(Used[T])
	if !ok {
		return controller, nil
	}
	for _, gvk := range used.UserKinds() {
		object, err := servedObject(mgr.GetScheme(), gvk)
		if err != nil {
			return nil, err
		}
		controller = controller.Watches(object,
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context, user User) []reconcile.Request {
				var all []reconcile.Request
				for _, name := range used.UsedBy(user) {
					all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: user.GetNamespace(), Name: name}})
				}
				return all
			}))
	}
	return controller, nil
}

// keepUsed reports who uses an object, and keeps the object while somebody does. It returns the users.
func (r *reconciler[T]) keepUsed(ctx context.Context, obj T) ([]User, error) {
	used, ok := r.kind.(Used[T])
	if !ok {
		return nil, nil
	}
	from := client.Reader(r.client)
	if !obj.GetDeletionTimestamp().IsZero() {
		// It goes for good: a user of a moment ago counts as well.
		from = r.live
	}
	users, err := r.users(ctx, from, used, obj)
	if err != nil {
		return nil, err
	}
	used.ReportUsers(obj, users)
	if (len(users) > 0) == controllerutil.ContainsFinalizer(obj, InUseFinalizer) {
		return users, nil
	}
	changed := obj.DeepCopyObject().(T)
	switch {
	case len(users) == 0:
		controllerutil.RemoveFinalizer(changed, InUseFinalizer)
	case obj.GetDeletionTimestamp().IsZero():
		controllerutil.AddFinalizer(changed, InUseFinalizer)
	default:
		// The API server takes none for an object that is being deleted.
		return users, nil
	}
	// Whoever adds a finalizer meanwhile keeps it.
	err = r.client.Patch(ctx, changed, client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(r.owner))
	return users, client.IgnoreNotFound(err)
}

// users are the objects that use another one, by kind and name. One that is being deleted uses it until it is gone.
func (r *reconciler[T]) users(ctx context.Context, from client.Reader, used Used[T], obj T) ([]User, error) {
	var users []User
	for _, gvk := range used.UserKinds() {
		empty, err := r.client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		list := empty.(client.ObjectList)
		if err := from.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
			return nil, fmt.Errorf("cannot list who uses %q: %w", obj.GetName(), err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			user := item.(User)
			if slices.Contains(used.UsedBy(user), obj.GetName()) {
				users = append(users, user)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(users, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return users, nil
}

// deleting reports why an object that is being deleted is still there.
func (r *reconciler[T]) deleting(obj T, users []User) outcome.Outcome {
	if len(users) == 0 {
		return report(obj, platformv1.PhaseDeleting,
			outcome.Waiting(platformv1.ReasonDeleting, "what it owns is being removed"))
	}
	kind := ""
	if gvk, err := apiutil.GVKForObject(users[0], r.client.Scheme()); err == nil {
		kind = gvk.Kind
	}
	more := ""
	if n := len(users) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return report(obj, platformv1.PhaseDeleting, outcome.Waiting(platformv1.ReasonDeleting, fmt.Sprintf(
		"it is used by %s %q%s, and goes when nothing uses it any more: delete these, or have them use another one", kind,
		users[0].GetName(), more)))
}
