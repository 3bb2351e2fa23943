// SPDX-License-Identifier: Apache-2.0

// Package foreign reads, writes and watches objects of kinds that other projects define, such as cert-manager and the
// Prometheus Operator, where these are installed. They may be installed, at any time, after the operator: nothing is
// watched until somebody has asked for such an object and its kinds are there.
package foreign

import (
	"context"
	"fmt"
	"sync"
	"time"

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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const (
	// absentFor is how long an answer that kinds are not there is good for everybody: many may wait for them.
	absentFor = 5 * time.Second
	// lookInterval is the time between looks for kinds that somebody awaits: one look for all who do.
	lookInterval = 5 * time.Second
)

// Cluster is the way to the objects of others. It is safe for concurrent use.
type Cluster struct {
	cluster cluster.Cluster

	mu     sync.Mutex
	queues map[string]queue
}

// Kinds are the kinds of one project, which come together. They are safe for concurrent use.
type Kinds struct {
	*Cluster
	kinds []schema.GroupVersionKind
	now   func() time.Time

	mu sync.Mutex
	// watching is set once the kinds are there and watched.
	watching bool
	// absent is when they were last found not to be there.
	absent time.Time
	// awaited by objects of our kinds.
	awaited map[awaiting]bool
}

// awaiting is an object of one of our kinds that others have to be there for.
type awaiting struct {
	kind    string
	request reconcile.Request
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// New returns a Cluster that sees the objects of one domain, in some namespaces or in all of them. It ends with mgr.
func New(mgr ctrl.Manager, domain string, namespaces map[string]cache.Config) (*Cluster, error) {
	c, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.HTTPClient = mgr.GetHTTPClient()
		o.Cache = cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{platformv1.DomainLabel: domain}),
			DefaultNamespaces:    namespaces,
			DefaultTransform:     cache.TransformStripManagedFields(),
		}
		o.Client.Cache = &client.CacheOptions{Unstructured: true}
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the objects of others: %w", err)
	}
	return &Cluster{cluster: c, queues: map[string]queue{}}, mgr.Add(c)
}

// Kinds returns the way to kinds of one project. It ends with mgr.
func (c *Cluster) Kinds(mgr ctrl.Manager, kinds ...schema.GroupVersionKind) (*Kinds, error) {
	k := &Kinds{Cluster: c, kinds: kinds, now: time.Now, awaited: map[awaiting]bool{}}
	return k, mgr.Add(manager.RunnableFunc(k.lookOut))
}

// Await wakes an object of one of our kinds once the kinds are there.
func (k *Kinds) Await(kind string, object client.ObjectKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.awaited[awaiting{kind, reconcile.Request{NamespacedName: object}}] = true
}

// lookOut looks for the kinds while somebody awaits them.
func (k *Kinds) lookOut(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			k.lookOnce(ctx)
		}
	}
}

func (k *Kinds) lookOnce(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.awaited) == 0 {
		return
	}
	// An error is for who asks next, and the look is made again.
	if there, err := k.look(ctx); err != nil || !there {
		return
	}
	for a := range k.awaited {
		k.wake(a.kind, a.request)
	}
	clear(k.awaited)
}

// Client reads objects from a cache; only those of kinds that are known to be installed.
func (c *Cluster) Client() client.Client { return c.cluster.GetClient() }

// Live reads what the cache may not show.
func (c *Cluster) Live() client.Reader { return c.cluster.GetAPIReader() }

// Installed says whether the kinds are there. The first time that they are, they are watched from then on.
func (k *Kinds) Installed(ctx context.Context) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watching {
		return true, nil
	}
	if !k.absent.IsZero() && k.now().Sub(k.absent) < absentFor {
		return false, nil
	}
	return k.look(ctx)
}

// look asks the server, and begins to watch what is there. The caller holds the lock.
func (k *Kinds) look(ctx context.Context) (bool, error) {
	if k.watching {
		return true, nil
	}
	for _, kind := range k.kinds {
		_, err := k.cluster.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			k.absent = k.now()
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot look for %s: %w", kind.GroupKind(), err)
		}
	}
	for _, kind := range k.kinds {
		if err := k.watch(ctx, kind); err != nil {
			return false, err
		}
	}
	k.watching = true
	return true, nil
}

// Watching says whether somebody has found the kinds there before.
func (k *Kinds) Watching() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watching
}

func (c *Cluster) watch(ctx context.Context, kind schema.GroupVersionKind) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	informer, err := c.cluster.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", kind.Kind, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.notify,
		UpdateFunc: func(_, object any) { c.notify(object) },
		DeleteFunc: c.notify,
	})
	return err
}

// Source returns what wakes the controller of one of our kinds: an object of others that it owns was added, changed or
// deleted.
func (c *Cluster) Source(kind string) source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queues[kind] = q
		return nil
	})
}

func (c *Cluster) notify(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	owned, ok := object.(metav1.Object)
	if !ok {
		return
	}
	owner := metav1.GetControllerOf(owned)
	if owner == nil || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group != platformv1.GroupVersion.Group {
		return
	}
	c.wake(owner.Kind, reconcile.Request{
		NamespacedName: types.NamespacedName{Namespace: owned.GetNamespace(), Name: owner.Name}})
}

func (c *Cluster) wake(kind string, request reconcile.Request) {
	c.mu.Lock()
	q := c.queues[kind]
	c.mu.Unlock()
	if q != nil {
		q.Add(request)
	}
}
