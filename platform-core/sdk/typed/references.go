// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reference is an object that another one names in its spec, in the same namespace. It can be compared.
type Reference struct {
	// GVK is the group, version and kind of the object that is named.
	GVK schema.GroupVersionKind
	// Name of the object that is named.
	Name string
}

// Referents are the objects that are there of those that an object names.
type Referents map[Reference]client.Object

// Referrer is a capability of a kind whose objects depend on others in the same namespace. An object is reconciled again when one
// changes that it names.
type Referrer[T Object] interface {
	// ReferredKinds returns every group, version and kind that References names. Those of the operator's scheme are read as their Go
	// types, all others as unstructured objects.
	ReferredKinds() []schema.GroupVersionKind
	// References returns what an object names, in any order.
	References(T) []Reference
	// CompileWith is Compile with those of the references that exist. Compile itself answers where nothing can be read, as if none did.
	CompileWith(T, Referents) (*Output, error)
}

// referredField indexes objects by what they name.
const referredField = "references"

// indexKey is the value of the index for one reference.
func (reference Reference) indexKey() string {
	return reference.GVK.GroupKind().String() + "/" + reference.Name
}

// watchReferred has objects of a kind be reconciled when another object changes that they name.
func (r registration[T]) watchReferred(mgr ctrl.Manager, controller *builder.Builder) (*builder.Builder, error) {
	referrer, ok := r.kind.(Referrer[T])
	if !ok {
		return controller, nil
	}
	keys := func(obj client.Object) []string {
		typed, is := obj.(T)
		if !is {
			return nil
		}
		var keys []string
		for _, reference := range referrer.References(typed) {
			keys = append(keys, reference.indexKey())
		}
		return keys
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.kind.New(), referredField, keys); err != nil {
		return nil, fmt.Errorf("cannot index objects of kind %q by their references: %w", r.kind.Name(), err)
	}
	for _, gvk := range referrer.ReferredKinds() {
		referred, err := emptyObject(mgr.GetScheme(), gvk)
		if err != nil {
			return nil, err
		}
		controller = controller.Watches(referred, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			all, err := r.referrersOf(ctx, mgr.GetClient(), obj.GetNamespace(), Reference{GVK: gvk, Name: obj.GetName()})
			if err != nil {
				log.FromContext(ctx).Error(err, "cannot list the objects that name another", "kind", gvk.Kind, "name", obj.GetName())
			}
			return all
		}))
	}
	return controller, nil
}

// referrersOf lists the objects of a kind that name another.
func (r registration[T]) referrersOf(ctx context.Context, c client.Client, namespace string, reference Reference) ([]reconcile.Request, error) {
	gvk, err := apiutil.GVKForObject(r.kind.New(), c.Scheme())
	if err != nil {
		return nil, err
	}
	list, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	if err := c.List(ctx, list.(client.ObjectList), client.InNamespace(namespace), client.MatchingFields{referredField: reference.indexKey()}); err != nil {
		return nil, err
	}
	var all []reconcile.Request
	err = meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return all, err
}

// referents reads what an object names.
func (r *reconciler[T]) referents(ctx context.Context, obj T) (Referents, error) {
	referrer, ok := r.kind.(Referrer[T])
	if !ok {
		return nil, nil
	}
	referents := Referents{}
	for _, reference := range referrer.References(obj) {
		referent, err := emptyObject(r.client.Scheme(), reference.GVK)
		if err != nil {
			return nil, err
		}
		err = r.client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: reference.Name}, referent)
		switch {
		case err == nil:
			referents[reference] = referent
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("cannot read %s %q: %w", reference.GVK.Kind, reference.Name, err)
		}
	}
	return referents, nil
}

// emptyObject returns an object of a kind: of its Go type where the scheme has one, else an unstructured one.
func emptyObject(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	if !scheme.Recognizes(gvk) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		return object, nil
	}
	object, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	known, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("kind %q is not one of objects", gvk.Kind)
	}
	return known, nil
}
