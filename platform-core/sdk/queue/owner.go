// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
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

// settleTime is how long changes of what an object is made of are gathered before it is looked at: an
// object that is being made has a dozen of them within a moment, most of them its controller's own.
const settleTime = 100 * time.Millisecond

// Made returns the handler that wakes the owner of what its controller makes, a moment after a change, so that further
// ones are part of the same turn. What is gone, and updates that are urgent (nil: none), wake it at once.
func Made(mgr ctrl.Manager, owner client.Object, urgent func(before, after client.Object) bool) handler.EventHandler {
	inner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), owner, handler.OnlyControllerOwner())
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) {
			inner.Create(ctx, e, begun(q, settleTime))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			wait := settleTime
			if urgent != nil && urgent(e.ObjectOld, e.ObjectNew) {
				wait = 0
			}
			inner.Update(ctx, e, begun(q, wait))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { inner.Delete(ctx, e, q) },
	}
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is a queue whose requests wait a little; the same request is kept once, and comes up with the first.
type gathering struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	wait time.Duration
}

// begunPriority is that of an owner whose parts tell of themselves: what has begun is brought to its end before
// something new is begun, so that of many objects the first are ready while the last have not cost anything yet.
const begunPriority = 1

// begun has requests wait, and be taken before those of new objects then; a queue that cannot sort them is left as it
// is.
func begun(q requests, wait time.Duration) requests {
	if sorting, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		return gathering{sorting, wait}
	}
	return q
}

// Add implements workqueue.TypedInterface.
func (g gathering) Add(request reconcile.Request) {
	g.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (g gathering) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	o.After = max(o.After, g.wait)
	if o.Priority == nil {
		// What was there at the start has a lower one.
		o.Priority = new(begunPriority)
	}
	g.PriorityQueue.AddWithOpts(o, items...)
}

func paced(child client.Object, q requests) requests {
	object, ok := child.(platformv1.Conditioned)
	if !ok {
		return begun(q, 0)
	}
	if conditions.IsTrue(object, platformv1.ReconcilingCondition) ||
		meta.FindStatusCondition(object.GetConditions(), platformv1.ReadyCondition) == nil {
		return begun(q, gather)
	}
	return begun(q, 0)
}
