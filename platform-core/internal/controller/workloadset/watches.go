// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// all are the requests for every set.
func (c *Controller) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var sets platformv1.WorkloadSetList
	if err := c.client.List(ctx, &sets); err != nil {
		return nil // The cache has been started: it does not fail.
	}
	requests := make([]reconcile.Request, len(sets.Items))
	for i := range sets.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&sets.Items[i])
	}
	return requests
}

// reportChanged says whether the report of a pod changed, its role included, or the pod is terminating.
func reportChanged(before, after client.Object) bool {
	return before.GetAnnotations()[platformv1.ReportAnnotation] != after.GetAnnotations()[platformv1.ReportAnnotation] ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// ofClaim maps a claim to its WorkloadSet. Claims have no owner reference, so
// that they outlive their set.
func ofClaim(_ context.Context, claim client.Object) []reconcile.Request {
	labels := claim.GetLabels()
	name := platformv1.WorkloadSetNameFor(labels[platformv1.ApplicationLabel], labels[platformv1.ComponentLabel],
		labels[platformv1.SetLabel])
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}}}
}

// over passes Operations that are gone, or have just ended.
var over = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.Finished(e.ObjectNew.(*platformv1.Operation)) && !opsflow.Finished(e.ObjectOld.(*platformv1.Operation))
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofRequest maps an Operation that is over to the set that it asked to have its primary replaced.
func ofRequest(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, set := range opsflow.Asked(obj.(*platformv1.Operation)) {
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: set}})
	}
	return requests
}

// ofOperation maps an Operation to the sets of its Application.
func (c *Controller) ofOperation(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.ofApplication(ctx, obj, func(*platformv1.WorkloadSet) bool { return true })
}

// ofEarlier maps a Component to the sets that are updated after it.
func (c *Controller) ofEarlier(ctx context.Context, obj client.Object) []reconcile.Request {
	component := obj.(*platformv1.Component).Spec.Component
	return c.ofApplication(ctx, obj, func(set *platformv1.WorkloadSet) bool {
		return slices.Contains(set.Spec.UpdateAfter, component)
	})
}

// updatedOrGone passes Components that have been updated, and those that are deleted.
var updatedOrGone = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Component), e.ObjectNew.(*platformv1.Component)
		return before.Status.UpdatedGeneration != after.Status.UpdatedGeneration ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofApplication are the requests for those of the sets of the Application of an object that it concerns.
func (c *Controller) ofApplication(ctx context.Context, obj client.Object,
	concerns func(*platformv1.WorkloadSet) bool) []reconcile.Request {
	var list platformv1.WorkloadSetList
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	if application == "" {
		return nil
	}
	if err := c.client.List(ctx, &list, client.InNamespace(obj.GetNamespace()),
		client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		log.FromContext(ctx).Error(err, "cannot list WorkloadSets", "application", application)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		if concerns(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// leftPods passes Operations that no longer work through pods, and those that are gone before they ended, which may
// leave something.
var leftPods = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.AtWork(e.ObjectOld.(*platformv1.Operation)) && !opsflow.AtWork(e.ObjectNew.(*platformv1.Operation))
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return !opsflow.Finished(e.Object.(*platformv1.Operation)) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
