// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"errors"
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

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Reference is an object that another one depends on and names in its spec. References can be compared.
type Reference struct {
	// GVK is the group, version and kind of the object that is named: not a Secret, whose content only the engine
	// reads.
	GVK schema.GroupVersionKind
	// Namespace of the object that is named; that of the object itself when empty. Another one is refused.
	Namespace string
	// Name of the object that is named.
	Name string
	// Field of the spec that names it, for messages, for example spec.modelRef.
	Field string
	// Optional has the object compile also while what it names does not exist or is being deleted.
	Optional bool
}

// Referents are the objects that exist of those that an object names: of their Go types where the kind is of a group
// that the operator serves kinds of, or is BackupRepository or Plugin, else unstructured.
type Referents map[Reference]client.Object

// Referrer is a capability of a kind whose objects depend on others in the same namespace. An object is reconciled
// again when one changes that it names. While one that is not optional does not exist, is being deleted or is in
// another namespace, the object stalls with ReferenceNotFound, ReferenceDeleting or ReferenceNotAllowed, and what it
// declared before stays as it is.
type Referrer[T Object] interface {
	// ReferredKinds returns every group, version and kind that References names. The operator needs the rights to get,
	// list and watch them.
	ReferredKinds() []schema.GroupVersionKind
	// References returns what an object names, in the order in which it is to be told what is wrong.
	References(T) []Reference
	// CompileWith is Compile with those of the references that exist. Compile itself answers where nothing can be read,
	// as if none did.
	CompileWith(T, Referents) (*Output, error)
}

// referredField indexes objects by what they name.
const referredField = "references"

// referredKey is the value of the index for an object that is named.
func referredKey(kind schema.GroupKind, name string) string { return kind.String() + "/" + name }

// referred reads what objects name: those of served kinds from the manager's cache, which has all of them, and others
// from a watcher.
type referred struct {
	client client.Client
	served map[schema.GroupVersionKind]bool
	others *watcher
}

// watchReferred has objects of a kind be reconciled when another object changes that they name.
func (r registration[T]) watchReferred(mgr ctrl.Manager, controller *builder.Builder,
	from referred) (*builder.Builder, error) {
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
			keys = append(keys, referredKey(reference.GVK.GroupKind(), reference.Name))
		}
		return keys
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.kind.New(), referredField, keys); err != nil {
		return nil, fmt.Errorf("cannot index objects of kind %q by their references: %w", r.kind.Name(), err)
	}
	others := false
	for _, gvk := range referrer.ReferredKinds() {
		if !from.served[gvk] {
			others = true
			continue
		}
		object, err := servedObject(mgr.GetScheme(), gvk)
		if err != nil {
			return nil, err
		}
		controller = controller.Watches(object, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context,
			obj client.Object) []reconcile.Request {
			return r.referrersOf(ctx, mgr.GetClient(), gvk.GroupKind(), obj)
		}))
	}
	if others {
		controller = controller.WatchesRawSource(from.others.source(func(ctx context.Context,
			obj client.Object) []reconcile.Request {
			return r.referrersOf(ctx, mgr.GetClient(), obj.GetObjectKind().GroupVersionKind().GroupKind(), obj)
		}))
	}
	return controller, nil
}

// referrersOf lists the objects of a kind that name another.
func (r registration[T]) referrersOf(ctx context.Context, c client.Client, kind schema.GroupKind,
	named client.Object) []reconcile.Request {
	var all []reconcile.Request
	list, err := r.emptyList(c.Scheme())
	if err == nil {
		err = c.List(ctx, list, client.InNamespace(named.GetNamespace()),
			client.MatchingFields{referredField: referredKey(kind, named.GetName())})
	}
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
			return nil
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list the objects that name another", "kind", kind.Kind, "name",
			named.GetName())
	}
	return all
}

// emptyList returns an empty list of the kind.
func (r registration[T]) emptyList(scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(r.kind.New(), scheme)
	if err != nil {
		return nil, err
	}
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

// referents reads what an object names, and returns why it cannot be compiled with that; Done when it can.
// Errors: errNotSynced while it cannot be told what exists.
func (r *reconciler[T]) referents(ctx context.Context, obj T) (Referents, outcome.Outcome, error) {
	referrer, ok := r.kind.(Referrer[T])
	if !ok {
		return nil, outcome.Done(), nil
	}
	referents := Referents{}
	var refusals []outcome.Outcome
	for _, reference := range referrer.References(obj) {
		if referents[reference] != nil {
			// It is named more than once.
			continue
		}
		referent, refusal, err := look(reference, obj.GetNamespace(), func() (client.Object, error) {
			return r.referred.read(ctx, reference, obj.GetNamespace())
		})
		if err != nil {
			return nil, outcome.Done(), err
		}
		if referent != nil {
			referents[reference] = referent
		}
		refusals = append(refusals, refusal)
	}
	return referents, outcome.Worst(refusals...), nil
}

// look reads what an object of a namespace names: nil for nothing. It returns why the object cannot be compiled with
// that; Done when it can. Errors: errNotSynced while it cannot be told what exists.
func look(reference Reference, namespace string, read func() (client.Object, error)) (client.Object, outcome.Outcome,
	error) {
	if reference.Namespace != "" && reference.Namespace != namespace {
		return nil, outcome.Stalled(platformv1.ReasonReferenceNotAllowed, fmt.Sprintf(
			"%s names %s in namespace %q: name one in namespace %q", reference.Field, reference, reference.Namespace,
			namespace)), nil
	}
	referent, err := read()
	switch {
	case err == nil:
	case errors.Is(err, errNotSynced):
		return nil, outcome.Done(), err
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err):
		return nil, outcome.Done(), fmt.Errorf("cannot read %s: %w", reference, err)
	default:
		referent = nil
	}
	if reference.Optional {
		return referent, outcome.Done(), nil
	}
	return referent, ofReferent(reference, referent, err), nil
}

// ofReferent is the outcome of a reference that is not optional: Done for an object that exists and stays.
func ofReferent(reference Reference, referent client.Object, err error) outcome.Outcome {
	switch {
	case apierrors.IsForbidden(err):
		return outcome.StalledFor(lookAgain, platformv1.ReasonForbidden, fmt.Sprintf(
			"%s names %s, which the API server does not let the operator read: give the operator's account the rights: %v",
			reference.Field, reference, err))
	case meta.IsNoMatchError(err):
		return outcome.StalledFor(lookAgain, platformv1.ReasonKindNotInstalled, fmt.Sprintf(
			"%s names %s, and this cluster has no kind %s in %s: install what defines it",
			reference.Field, reference, reference.GVK.Kind, reference.GVK.GroupVersion()))
	case err != nil:
		return outcome.Stalled(platformv1.ReasonReferenceNotFound, fmt.Sprintf(
			"%s names %s, which does not exist: create it, or name another", reference.Field, reference))
	case !referent.GetDeletionTimestamp().IsZero():
		return outcome.Stalled(platformv1.ReasonReferenceDeleting, fmt.Sprintf(
			"%s names %s, which is being deleted: name another, or create it again once it is gone", reference.Field, reference))
	}
	return outcome.Done()
}

// String names the object for a person.
func (reference Reference) String() string {
	return fmt.Sprintf("%s %q", reference.GVK.Kind, reference.Name)
}

// read returns the object that is named.
func (r referred) read(ctx context.Context, reference Reference, namespace string) (client.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: reference.Name}
	if r.served[reference.GVK] {
		object, err := servedObject(r.client.Scheme(), reference.GVK)
		if err != nil {
			return nil, err
		}
		return object, r.client.Get(ctx, key, object)
	}
	if r.others == nil {
		return nil, fmt.Errorf("ReferredKinds does not name kind %s", reference.GVK)
	}
	if err := r.others.ready(ctx, reference.GVK, namespace); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(reference.GVK)
	return object, r.others.GetClient().Get(ctx, key, object)
}

// servedObject returns an empty object of a kind that the scheme has.
func servedObject(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
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
