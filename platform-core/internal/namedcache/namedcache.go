// SPDX-License-Identifier: Apache-2.0

// Package namedcache is for controllers of a few objects with fixed names, such as the operator's own Secret. It has a
// cache of only these objects in every replica, and one request for all their events.
package namedcache

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

// Request is the only request of such a controller.
var Request = reconcile.Request{NamespacedName: types.NamespacedName{Name: "named"}}

// New returns a cache of the selected objects, which the manager runs in every replica.
func New(mgr ctrl.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:       mgr.GetHTTPClient(),
		Scheme:           mgr.GetScheme(),
		Mapper:           mgr.GetRESTMapper(),
		ByObject:         objects,
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create a cache of named objects: %w", err)
	}
	return own, mgr.Add(everyReplica{own})
}

// everyReplica is a cache that also runs in replicas that are not the leader. By default a manager starts such a cache
// only in the leader: the other replicas would never be ready, and an upgrade would never finish.
type everyReplica struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everyReplica) NeedLeaderElection() bool { return false }

// InNamespace selects one namespaced object.
func InNamespace(key types.NamespacedName) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{key.Namespace: {FieldSelector: named(key.Name)}}}
}

// InCluster selects one cluster-scoped object.
func InCluster(name string) cache.ByObject { return cache.ByObject{Field: named(name)} }

func named(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// Enqueue maps every event to Request.
func Enqueue[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, T) []reconcile.Request { return []reconcile.Request{Request} })
}

// EnqueueAtStart is a source that triggers one reconcile at the start. A watch sends no event for a missing object.
func EnqueueAtStart(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(Request)
	return nil
}
