// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

// ofOperation wakes the Application that an Operation acts on.
func ofOperation(_ context.Context, obj client.Object) []reconcile.Request {
	op := obj.(*platformv1.Operation)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: op.Namespace, Name: op.Status.Application}}}
}

// startsOrEnds passes Operations whose Application may have another one that runs than before.
var startsOrEnds = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return opsflow.Running(e.Object.(*platformv1.Operation)) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return opsflow.Running(was) != opsflow.Running(is) || opsflow.StandsAside(was) != opsflow.StandsAside(is)
	},
	DeleteFunc:  func(e event.DeleteEvent) bool { return opsflow.Running(e.Object.(*platformv1.Operation)) },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
