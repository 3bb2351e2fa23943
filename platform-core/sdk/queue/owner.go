// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// gather is how long the changes of a child that is at work are gathered before
// its owner looks: each step of a pod's start would be a write at every level above it.
// A child that becomes ready, stalls or goes is told of at once.
const gather = 500 * time.Millisecond

// OwnerOf returns the handler that wakes the owner of a child.
func OwnerOf(mgr ctrl.Manager, owner client.Object) handler.EventHandler {
	inner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner())
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { inner.Create(ctx, e, paced(e.Object, q)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			inner.Update(ctx, e, paced(e.ObjectNew, q))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { inner.Delete(ctx, e, q) },
	}
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is a queue whose requests wait a little; the same request is kept once.
type gathering struct{ requests }

// Add implements workqueue.TypedInterface.
func (g gathering) Add(request reconcile.Request) { g.AddAfter(request, gather) }

func paced(child client.Object, q requests) requests {
	object, ok := child.(platformv1.Conditioned)
	if !ok {
		return q
	}
	if conditions.IsTrue(object, platformv1.ReconcilingCondition) || meta.FindStatusCondition(object.GetConditions(), platformv1.ReadyCondition) == nil {
		return gathering{q}
	}
	return q
}
