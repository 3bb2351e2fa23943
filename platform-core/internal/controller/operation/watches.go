// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// unfinishedField indexes Operations that have not ended by the name of their Application.
const unfinishedField = "unfinishedOfApplication"

func byApplication(obj client.Object) []string {
	op := obj.(*platformv1.Operation)
	if opsflow.Finished(op) || op.Status.Application == "" {
		return nil
	}
	return []string{op.Status.Application}
}

// queuedBehind wakes the Operations that wait for one that ended.
func (c *Controller) queuedBehind(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.unfinished(ctx, obj.GetNamespace(), obj.(*platformv1.Operation).Status.Application, platformv1.OperationPending)
}

// ofApplication wakes the Operation that runs on the Application that an object is or is part of.
func (c *Controller) ofApplication(ctx context.Context, obj client.Object) []reconcile.Request {
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	if app, is := obj.(*platformv1.Application); is {
		application = app.Name
	}
	return c.unfinished(ctx, obj.GetNamespace(), application, platformv1.OperationRunning)
}

func (c *Controller) unfinished(ctx context.Context, namespace, application string, phase platformv1.OperationPhase) []reconcile.Request {
	if application == "" {
		return nil
	}
	var list platformv1.OperationList
	err := c.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{unfinishedField: application})
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list Operations", "application", application)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.Phase == phase {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// ended passes Operations that others can have waited for and that no longer stand in the way.
var ended = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return opsflow.Finished(e.ObjectNew.(*platformv1.Operation)) && !opsflow.Finished(e.ObjectOld.(*platformv1.Operation))
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// deleted passes objects that go.
var deleted = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// podChanged passes what can move a running Operation on.
var podChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return was.UID != is.UID ||
		was.Annotations[platformv1.ReportAnnotation] != is.Annotations[platformv1.ReportAnnotation] ||
		presenceOf(was) != presenceOf(is)
}}
