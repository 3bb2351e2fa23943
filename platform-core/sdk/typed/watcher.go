// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// askedAgain is how long it counts that a kind is not installed or may not be read.
const askedAgain = 5 * time.Second

// errNotSynced says that a kind is watched and that its objects are still being read.
var errNotSynced = errors.New("the objects are still being read")

// watcher reads and watches objects of kinds that the manager's cache does not hold. Such a kind may be installed at
// any time after the operator, and the operator may lack the rights to read it: it is watched from the first time that
// an object needs it and it can be read, so that neither keeps the operator from starting. Objects are unstructured. A
// watcher is safe for concurrent use.
type watcher struct {
	cluster.Cluster
	selector labels.Selector
	limited  bool

	mu          sync.Mutex
	kinds       map[schema.GroupVersionKind]*watchedKind
	subscribers []subscriber
}

// watchedKind is what is known of one kind.
type watchedKind struct {
	informer  cache.Informer
	clustered bool
	refusal   error
	lastAsked time.Time
}

type queued = workqueue.TypedRateLimitingInterface[reconcile.Request]

// subscriber is a controller that wants to know of changes.
type subscriber struct {
	queue    queued
	requests func(context.Context, client.Object) []reconcile.Request
}

// newWatcher returns a watcher of the objects that a selector chooses, in some namespaces or in all of them. It ends
// with mgr.
func newWatcher(mgr ctrl.Manager, selector labels.Selector, namespaces map[string]cache.Config) (*watcher, error) {
	c, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme, o.HTTPClient = mgr.GetScheme(), mgr.GetHTTPClient()
		o.Cache = cache.Options{DefaultLabelSelector: selector, DefaultNamespaces: namespaces,
			DefaultTransform: cache.TransformStripManagedFields()}
		o.Client.Cache = &client.CacheOptions{Unstructured: true}
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for objects of other kinds: %w", err)
	}
	return &watcher{Cluster: c, selector: selector, limited: len(namespaces) > 0,
		kinds: map[schema.GroupVersionKind]*watchedKind{}}, mgr.Add(c)
}

// source returns what wakes a controller: requests says which objects of its kind a change concerns.
func (w *watcher) source(requests func(context.Context, client.Object) []reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, q queued) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.subscribers = append(w.subscribers, subscriber{q, requests})
		return nil
	})
}

// ready returns nil once the objects of a kind can be read from the cache. Errors: errNotSynced; one for which
// meta.IsNoMatchError or apierrors.IsForbidden holds. namespace is one that the operator serves.
func (w *watcher) ready(ctx context.Context, gvk schema.GroupVersionKind, namespace string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := w.kinds[gvk]
	if kind == nil {
		kind = &watchedKind{}
		w.kinds[gvk] = kind
	}
	if kind.informer == nil {
		if kind.refusal != nil && time.Since(kind.lastAsked) < askedAgain {
			return kind.refusal
		}
		err := w.begin(ctx, gvk, namespace, kind)
		if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
			kind.refusal, kind.lastAsked = err, time.Now()
		}
		if err != nil {
			return err
		}
	}
	if !kind.informer.HasSynced() {
		return errNotSynced
	}
	return nil
}

// begin watches a kind if it is installed and may be read. The caller holds the lock.
func (w *watcher) begin(ctx context.Context, gvk schema.GroupVersionKind, namespace string, kind *watchedKind) error {
	mapping, err := w.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	kind.clustered = mapping.Scope.Name() != meta.RESTScopeNameNamespace
	probe := &unstructured.UnstructuredList{}
	probe.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	options := &client.ListOptions{Limit: 1, LabelSelector: w.selector}
	if w.limited && !kind.clustered {
		options.Namespace = namespace
	}
	// An informer that may not list would try for ever and never say so.
	if err := w.GetAPIReader().List(ctx, probe, options); err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := w.GetFieldIndexer().IndexField(ctx, object, ownerField, controllerUID); err != nil {
		return err
	}
	informer, err := w.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.notify, UpdateFunc: func(_, object any) { w.notify(object) }, DeleteFunc: w.notify,
	})
	if err == nil {
		kind.informer = informer
	}
	return err
}

// isClustered says whether objects of a kind that is ready are in no namespace.
func (w *watcher) isClustered(gvk schema.GroupVersionKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[gvk] != nil && w.kinds[gvk].clustered
}

// notify wakes all whom a change concerns.
func (w *watcher) notify(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	changed, ok := object.(client.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	subscribers := w.subscribers[:len(w.subscribers):len(w.subscribers)]
	w.mu.Unlock()
	for _, s := range subscribers {
		for _, request := range s.requests(context.Background(), changed) {
			s.queue.Add(request)
		}
	}
}

// ownersOf returns what finds the objects of a kind that control others.
func (w *watcher) ownersOf(kind schema.GroupKind) func(context.Context, client.Object) []reconcile.Request {
	return func(_ context.Context, owned client.Object) []reconcile.Request {
		owner := metav1.GetControllerOf(owned)
		if owner == nil || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != kind {
			return nil
		}
		name := types.NamespacedName{Namespace: owned.GetNamespace(), Name: owner.Name}
		if mapping, err := w.GetRESTMapper().RESTMapping(kind); err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
			name.Namespace = ""
		}
		return []reconcile.Request{{NamespacedName: name}}
	}
}
