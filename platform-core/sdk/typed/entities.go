// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// EntityReporter is a capability of a kind whose objects tell in their status of what they declare inside the
// middleware.
type EntityReporter[T Object] interface {
	// ReportEntities fills in the kind's own status fields from the object's Entities, in the order of their types and of
	// their names inside the middleware. One that is not declared any more may be among them, and one that has just been
	// made is not.
	ReportEntities(T, []platformv1.Entity)
}

// ownerField indexes what objects declare by the UID of the object that controls them.
const ownerField = "metadata.controllerUID"

func controllerUID(obj client.Object) []string {
	if controller := metav1.GetControllerOf(obj); controller != nil {
		return []string{string(controller.UID)}
	}
	return nil
}

// indexOwned has the Entities and Operations of an object be found without a look at all others.
func indexOwned(mgr ctrl.Manager) error {
	for _, owned := range []client.Object{&platformv1.Entity{}, &platformv1.Operation{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), owned, ownerField, controllerUID); err != nil {
			return fmt.Errorf("cannot index %T by its owner: %w", owned, err)
		}
	}
	return nil
}

// keepEntities brings the Entities of an object to what it declares, and returns how it stands with them.
func (r *reconciler[T]) keepEntities(ctx context.Context, obj T, wanted []platformv1.EntitySpec) outcome.Outcome {
	var list platformv1.EntityList
	err := r.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingFields{ownerField: string(obj.GetUID())})
	if err != nil {
		return outcome.Failed(fmt.Errorf("cannot list the Entities of %q: %w", obj.GetName(), err))
	}
	// Before anything points into it.
	slices.SortFunc(list.Items, func(a, b platformv1.Entity) int {
		return cmp.Or(strings.Compare(a.Spec.Type, b.Spec.Type), strings.Compare(a.Spec.Name, b.Spec.Name))
	})
	have := map[string]*platformv1.Entity{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	var outcomes []outcome.Outcome
	if reporter, ok := r.kind.(EntityReporter[T]); ok {
		reporter.ReportEntities(obj, list.Items)
	}
	for _, spec := range wanted {
		entity := &platformv1.Entity{Spec: spec}
		entity.Name, entity.Namespace = platformv1.EntityNameFor(spec.ApplicationRef.Name, spec.Type,
			spec.Name), obj.GetNamespace()
		entity.Labels = map[string]string{platformv1.DomainLabel: r.domain, platformv1.ManagedByLabel: platformv1.ManagedBy}
		if err := controllerutil.SetControllerReference(obj, entity, r.client.Scheme()); err != nil {
			return outcome.Failed(err)
		}
		if spec.DeletionPolicy == platformv1.EntityDelete {
			// The engine would give it that before it has the object made.
			controllerutil.AddFinalizer(entity, platformv1.EntityFinalizer)
		}
		change, err := r.apply.Apply(ctx, entity)
		switch {
		case err != nil:
			outcomes = append(outcomes, ofRefused(err, &spec))
		case change != apply.Unchanged:
			// What was read is of the spec before. The change wakes us.
			outcomes = append(outcomes, ofEntity(nil, &spec))
		default:
			outcomes = append(outcomes, ofEntity(have[entity.Name], &spec))
		}
		delete(have, entity.Name)
	}
	if err := confirm(ctx, r, obj, maps.Values(have)); err != nil {
		return outcome.Worst(append(outcomes, outcome.Failed(err))...)
	}
	for _, entity := range have {
		if err := r.apply.Delete(ctx, entity); err != nil {
			outcomes = append(outcomes, outcome.Failed(err))
		}
	}
	return outcome.Worst(outcomes...)
}

// confirm asks the API server whether an object is the one by which others are to be deleted. Their data may go with
// them: none goes by an object that was changed since it was cached, which may declare them again, or have been read
// before it did.
func confirm[T Object, O client.Object](ctx context.Context, r *reconciler[T], obj T, undeclared iter.Seq[O]) error {
	for other := range undeclared {
		if other.GetDeletionTimestamp() == nil {
			return r.apply.Current(ctx, obj)
		}
	}
	return nil
}

// ofEntity is how it stands with one Entity, nil for one that has just been written, in words that say which it is.
func ofEntity(entity *platformv1.Entity, spec *platformv1.EntitySpec) outcome.Outcome {
	o := outcome.Waiting(platformv1.ReasonProgressing, conditions.BeingApplied)
	if entity != nil && conditions.Reported(entity) {
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

// ofRefused is the outcome of an Entity that could not be applied, in words that say which it is.
func ofRefused(err error, spec *platformv1.EntitySpec) outcome.Outcome {
	o := apply.Outcome(err)
	return o.Saying(fmt.Sprintf("%s %q: %s", spec.Type, spec.Name, o.Message()))
}

// phaseWith is that of an object of which something beside the Application is not ready.
func phaseWith(beside outcome.Outcome) platformv1.Phase {
	if beside.Kind() == outcome.KindStalled {
		return platformv1.PhaseStalled
	}
	return platformv1.PhaseUpdating
}
