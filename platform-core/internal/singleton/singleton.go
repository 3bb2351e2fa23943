// SPDX-License-Identifier: Apache-2.0

// Package singleton is for controllers of a few objects that are known by name, such as an operator's own Secret: a
// cache of nothing else, in every replica, and one request whatever happened to any of them.
package singleton

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Request is the only one of such a controller.
var Request = reconcile.Request{NamespacedName: types.NamespacedName{Name: "singleton"}}

// Cache returns a cache of the selected objects, which the manager runs in every replica.
func Cache(mgr ctrl.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:       mgr.GetHTTPClient(),
		Scheme:           mgr.GetScheme(),
		Mapper:           mgr.GetRESTMapper(),
		ByObject:         objects,
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a cache of single objects: %w", err)
	}
	return own, mgr.Add(everyReplica{own})
}

// everyReplica is a cache that runs in replicas that do not lead, too. One of selected objects does not say so itself,
// and a manager then starts it in the leader alone: the others would never be ready, and an upgrade would wait for
// ever.
type everyReplica struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplica) NeedLeaderElection() bool { return false }

// InNamespace selects the object of that name in a namespace.
func InNamespace(key types.NamespacedName) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{key.Namespace: {FieldSelector: named(key.Name)}}}
}

// InCluster selects the object of that name of a kind that belongs to no namespace.
func InCluster(name string) cache.ByObject { return cache.ByObject{Field: named(name)} }

func named(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// Any turns every event into Request.
func Any[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, T) []reconcile.Request { return []reconcile.Request{Request} })
}

// First is the source that wakes a controller once at its start: of what is absent no watch tells.
func First(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(Request)
	return nil
}
