// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Gather wakes what requestOf names so long after an event: what happens to many objects meanwhile, such as those of
// one apply, is one request.
func Gather(wait time.Duration, requestOf func(client.Object) reconcile.Request) handler.EventHandler {
	add := func(obj client.Object, q requests) { q.AddAfter(requestOf(obj), wait) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) { add(e.Object, q) },
	}
}
