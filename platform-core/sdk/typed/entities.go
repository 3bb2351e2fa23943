// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// EntityMaker is a capability of a kind whose objects declare what lives inside the middleware, such as its users. The frame keeps an
// Entity for each, owned by the object; one that is declared no more is deleted, and with it what its deletionPolicy says.
// An object is Ready when its Application and all of its Entities are. The operator needs the rights to create and delete Entities.
type EntityMaker[T Object] interface {
	// Entities returns what the object declares: specs without applicationRef, of which no two have the same type and name.
	Entities(T) []platformv1.EntitySpec
}

// EntityReporter is a capability of an EntityMaker whose objects tell in their status of what they declare inside the middleware.
type EntityReporter[T Object] interface {
	// ReportEntities fills in the kind's own status fields from the object's Entities, in the order of their names. One that is not declared any
	// more may be among them, and one that has just been made is not.
	ReportEntities(T, []platformv1.Entity)
}

// Referrer is a capability of an EntityMaker whose objects name others of their kind, in the same namespace, for what is inside the middleware.
// An object is looked at again when one changes that it names.
type Referrer[T Object] interface {
	// Referred are the names of the others, in any order.
	Referred(T) []string
	// EntitiesWith is EntityMaker.Entities with those of the others that there are, by name.
	EntitiesWith(obj T, others map[string]T) []platformv1.EntitySpec
}

// referredField indexes objects by the names of the others that they name.
const referredField = "referred"

// watchReferred has objects of a kind be looked at when another changes that they name.
func (r registration[T]) watchReferred(mgr ctrl.Manager, controller *builder.Builder) (*builder.Builder, error) {
	referrer, ok := r.kind.(Referrer[T])
	if !ok {
		return controller, nil
	}
	names := func(obj client.Object) []string {
		typed, is := obj.(T)
		if !is {
			return nil
		}
		return referrer.Referred(typed)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), r.kind.New(), referredField, names); err != nil {
		return nil, fmt.Errorf("cannot index objects of kind %q by those that they name: %w", r.kind.Name(), err)
	}
	gvk, err := apiutil.GVKForObject(r.kind.New(), mgr.GetScheme())
	if err != nil {
		return nil, err
	}
	return controller.Watches(r.kind.New(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		list, err := mgr.GetScheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err == nil {
			err = mgr.GetClient().List(ctx, list.(client.ObjectList), client.InNamespace(obj.GetNamespace()), client.MatchingFields{referredField: obj.GetName()})
		}
		var all []reconcile.Request
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
				return nil
			})
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot list the objects that name another", "kind", gvk.Kind, "name", obj.GetName())
		}
		return all
	})), nil
}

// entityOwnerField indexes Entities by the UID of the object that controls them.
const entityOwnerField = "metadata.controllerUID"

func entityOwner(obj client.Object) []string {
	if controller := metav1.GetControllerOf(obj); controller != nil {
		return []string{string(controller.UID)}
	}
	return nil
}

// indexEntities has the Entities of an object be found without a look at all others.
func indexEntities(mgr ctrl.Manager, registrations []Registration) error {
	if !slices.ContainsFunc(registrations, Registration.makesEntities) {
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &platformv1.Entity{}, entityOwnerField, entityOwner); err != nil {
		return fmt.Errorf("cannot index Entities by their owner: %w", err)
	}
	return nil
}

// makesEntities implements Registration.
func (r registration[T]) makesEntities() bool {
	_, makes := r.kind.(EntityMaker[T])
	return makes
}

// keepEntities brings the Entities of an object to what it declares, and returns how it stands with them.
func (r *reconciler[T]) keepEntities(ctx context.Context, obj T, app *platformv1.Application) (outcome.Outcome, error) {
	maker, ok := r.kind.(EntityMaker[T])
	if !ok {
		return outcome.Done(), nil
	}
	var list platformv1.EntityList
	err := r.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{entityOwnerField: string(obj.GetUID())})
	if err != nil {
		return outcome.Done(), fmt.Errorf("cannot list the Entities of %q: %w", obj.GetName(), err)
	}
	// Before anything points into it.
	slices.SortFunc(list.Items, func(a, b platformv1.Entity) int { return strings.Compare(a.Name, b.Name) })
	have := map[string]*platformv1.Entity{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	worst := outcome.Done()
	if reporter, ok := r.kind.(EntityReporter[T]); ok {
		reporter.ReportEntities(obj, list.Items)
	}
	specs, err := r.declared(ctx, obj, maker)
	if err != nil {
		return outcome.Done(), err
	}
	for _, spec := range specs {
		spec.ApplicationRef.Name = app.Name
		// What volumes have from earlier was there before anybody could have made it beside this object.
		spec.Adopt = spec.Adopt || app.Spec.AdoptVolumes != ""
		entity := &platformv1.Entity{Spec: spec}
		entity.Name, entity.Namespace = platformv1.EntityNameFor(app.Name, spec.Type, spec.Name), obj.GetNamespace()
		entity.Labels = map[string]string{platformv1.DomainLabel: r.domain, platformv1.ManagedByLabel: platformv1.ManagedBy}
		if err := controllerutil.SetControllerReference(obj, entity, r.client.Scheme()); err != nil {
			return worst, err
		}
		if _, err := r.apply.Apply(ctx, entity); err != nil {
			return worst, err
		}
		worst = worse(worst, ofEntity(have[entity.Name], &spec))
		delete(have, entity.Name)
	}
	for _, entity := range have {
		if err := r.apply.Delete(ctx, entity); err != nil {
			return worst, err
		}
	}
	return worst, nil
}

// declared is what an object declares inside the middleware.
func (r *reconciler[T]) declared(ctx context.Context, obj T, maker EntityMaker[T]) ([]platformv1.EntitySpec, error) {
	referrer, ok := r.kind.(Referrer[T])
	if !ok {
		return maker.Entities(obj), nil
	}
	others := map[string]T{}
	for _, name := range referrer.Referred(obj) {
		other := r.kind.New()
		err := r.client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, other)
		switch {
		case err == nil:
			others[name] = other
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("cannot read %s %q: %w", r.kind.Name(), name, err)
		}
	}
	return referrer.EntitiesWith(obj, others), nil
}

// ofEntity is how it stands with one Entity, nil for one that has just been made, in words that say which it is.
func ofEntity(entity *platformv1.Entity, spec *platformv1.EntitySpec) outcome.Outcome {
	o := outcome.Waiting(platformv1.ReasonProgressing, "it is being made")
	if entity != nil {
		o = conditions.Outcome(entity)
	}
	message := fmt.Sprintf("%s %q: %s", spec.Type, spec.Name, o.Message())
	switch o.Kind() {
	case outcome.KindDone:
		return o
	case outcome.KindStalled:
		return outcome.Stalled(o.Reason(), message)
	default:
		return outcome.Waiting(o.Reason(), message)
	}
}

// worse keeps the first of what a person has to mend, else the first of what is waited for.
func worse(a, b outcome.Outcome) outcome.Outcome {
	if a.Kind() == outcome.KindDone || a.Kind() != outcome.KindStalled && b.Kind() == outcome.KindStalled {
		return b
	}
	return a
}

// phaseWith is that of an object whose Application is ready and whose Entities are not.
func phaseWith(entities outcome.Outcome) platformv1.Phase {
	if entities.Kind() == outcome.KindStalled {
		return platformv1.PhaseStalled
	}
	return platformv1.PhaseUpdating
}
