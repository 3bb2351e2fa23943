// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// Released passes Operations that had to hold something, when they hold nothing any more and wait for nothing: they
// have ended, are to be cancelled, have no owner any more, or are gone.
var Released = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return synchronized(after) && (!before.Status.Phase.Ended() && after.Status.Phase.Ended() ||
			!leaves(before) && leaves(after))
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return synchronized(e.Object) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// Paused passes Workflows that have to hold something, when they are suspended: others no longer wait behind them.
var Paused = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*batchv1.Workflow), e.ObjectNew.(*batchv1.Workflow)
		return after.Spec.Synchronization != nil && !before.Spec.Suspend && after.Spec.Suspend
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// synchronized says whether the run of an Operation has to hold something.
func synchronized(op client.Object) bool {
	return op.GetAnnotations()[batchv1.SynchronizationAnnotation] != ""
}

// leaves says whether an Operation acquires nothing more, whatever it waits for.
func leaves(op *platformv1.Operation) bool {
	return op.Spec.Cancel || op.Status.Phase.Ended() || !op.DeletionTimestamp.IsZero() || metav1.GetControllerOf(op) == nil
}
