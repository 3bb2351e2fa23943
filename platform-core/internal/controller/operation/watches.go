// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// finishedField indexes Operations that have ended by who keeps their record, see keeperOf.
const finishedField = "finishedOfApplication"

// finishedOf leaves out those that are kept by what controls them, unless they have a time of their own: that has yet
// to read how they ended, or has a history of its own.
func finishedOf(obj client.Object) []string {
	op := obj.(*platformv1.Operation)
	keeper := keeperOf(op)
	switch {
	case !opsflow.Finished(op),
		keeper == nobody && metav1.GetControllerOf(op) != nil && op.Spec.TTLSecondsAfterFinished == nil:
		return nil
	}
	return []string{keeper}
}

// queuedBehind wakes the Operations that wait for one that ended, and those that its steps run.
func (c *Controller) queuedBehind(ctx context.Context, obj client.Object) []reconcile.Request {
	if opsflow.IsInline(obj.(*platformv1.Operation)) || obj.(*platformv1.Operation).Status.Application == "" {
		return c.childrenOf(ctx, obj)
	}
	return c.unfinished(ctx, obj.GetNamespace(), obj.(*platformv1.Operation).Status.Application,
		func(op *platformv1.Operation) bool {
			return op.Status.Phase == platformv1.OperationPending || opsflow.ParentOf(op) == obj.GetUID()
		})
}

// childrenOf wakes the Operations that steps of one run that acts on no instance.
func (c *Controller) childrenOf(ctx context.Context, obj client.Object) []reconcile.Request {
	children, err := records.Children(ctx, c.client, obj.GetNamespace(), obj.GetUID())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list the Operations of steps", "operation", client.ObjectKeyFromObject(obj))
		return nil
	}
	var requests []reconcile.Request
	for _, op := range children {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(op)})
	}
	return requests
}

// parentOf wakes the Operation whose step an Operation is.
func (c *Controller) parentOf(_ context.Context, obj client.Object) []reconcile.Request {
	if opsflow.ParentOf(obj.(*platformv1.Operation)) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(),
		Name: metav1.GetControllerOf(obj).Name}}}
}

// ofApplication wakes the Operations that run on the Application that an object is or is part of.
func (c *Controller) ofApplication(ctx context.Context, obj client.Object) []reconcile.Request {
	application := obj.GetLabels()[platformv1.ApplicationLabel]
	var drills []reconcile.Request
	if app, is := obj.(*platformv1.Application); is {
		application, drills = app.Name, ofDrill(app)
	}
	return append(drills, c.unfinished(ctx, obj.GetNamespace(), application, opsflow.Running)...)
}

// ofDeclared wakes the Operations that run on the Application that an object of a kind declares.
func (c *Controller) ofDeclared(kind typed.Registration) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return c.unfinished(ctx, obj.GetNamespace(), kind.ApplicationName(obj), opsflow.Running)
	}
}

func (c *Controller) unfinished(ctx context.Context, namespace, application string,
	which func(*platformv1.Operation) bool) []reconcile.Request {
	if application == "" {
		return nil
	}
	operations, err := records.Unfinished(ctx, c.client, namespace, application)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot list Operations", "application", application)
		return nil
	}
	var requests []reconcile.Request
	for _, op := range operations {
		if which(op) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(op)})
		}
	}
	return requests
}

// atWork passes Operations that have not ended, those that have just done so, and of those before only the ones to tell
// of.
func (c *Controller) atWork() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			op := e.Object.(*platformv1.Operation)
			return !opsflow.Finished(op) || c.Traces.Wants(op) || !op.DeletionTimestamp.IsZero()
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !opsflow.Finished(e.ObjectOld.(*platformv1.Operation)) ||
				!opsflow.Finished(e.ObjectNew.(*platformv1.Operation)) || !e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}

// ended passes Operations that others can have waited for and that no longer stand in the way, if only for now.
var ended = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return opsflow.Finished(is) && !opsflow.Finished(was) || is.Status.Ending != was.Status.Ending ||
			opsflow.StandsAside(is) && !opsflow.StandsAside(was)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// reportChanged passes Applications that go, or that say something else of themselves.
var reportChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Application), e.ObjectNew.(*platformv1.Application)
		return was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() ||
			was.Status.ObservedGeneration != is.Status.ObservedGeneration ||
			!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// lined passes Operations for which one that runs may have to end.
var lined = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return opsflow.RecordsSpec(e.Object.(*platformv1.Operation)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return is.Status.Phase == platformv1.OperationPending && was.Status.Phase != is.Status.Phase ||
			was.Annotations[platformv1.PreemptsAnnotation] != is.Annotations[platformv1.PreemptsAnnotation]
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// moved passes Operations that are elsewhere than before, and those with other news of what keeps a pod from starting.
var moved = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return was.Status.Phase != is.Status.Phase || was.Status.Progress != is.Status.Progress ||
			stoppedBy(was) != stoppedBy(is)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// stoppedBy is what keeps a pod of an Operation from starting; empty for nothing.
func stoppedBy(op *platformv1.Operation) string {
	if stopped := opsflow.Stopped(&op.Status); stopped != nil {
		return stopped.Message
	}
	return ""
}

// backupMoved passes Backups that say something else of themselves, and those that go.
var backupMoved = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Backup), e.ObjectNew.(*platformv1.Backup)
		return was.Status.Phase != is.Status.Phase || was.Status.Message != is.Status.Message ||
			!equality.Semantic.DeepEqual(was.Status.Verified, is.Status.Verified)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// setChanged passes sets with another spec, and those that say something else of their writer.
var setChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.WorkloadSet), e.ObjectNew.(*platformv1.WorkloadSet)
		return !equality.Semantic.DeepEqual(was.Status.Primary, is.Status.Primary) ||
			!equality.Semantic.DeepEqual(was.Status.Switchover, is.Status.Switchover) ||
			pendingOf(was) != pendingOf(is)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
})

// podChanged passes what can move a running Operation on.
var podChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return was.UID != is.UID ||
		was.Annotations[platformv1.ReportAnnotation] != is.Annotations[platformv1.ReportAnnotation] ||
		was.Labels[platformv1.RoleLabel] != is.Labels[platformv1.RoleLabel] ||
		presenceOf(was) != presenceOf(is)
}}
