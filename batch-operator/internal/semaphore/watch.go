// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// Released passes Operations that had to hold something, when they have ended or are gone.
var Released = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return synchronized(after) && !before.Status.Phase.Ended() && after.Status.Phase.Ended()
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return synchronized(e.Object) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// synchronized says whether the run of an Operation has to hold something.
func synchronized(op client.Object) bool {
	return op.GetAnnotations()[batchv1.SynchronizationAnnotation] != ""
}
