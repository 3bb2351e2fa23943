// SPDX-License-Identifier: Apache-2.0

package certmanager

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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

const (
	// Recheck is how soon an object that waits for cert-manager looks again.
	Recheck = 10 * time.Second
	// absentFor is how long an answer that it is not there is good for everybody: many may wait for it.
	absentFor = 5 * time.Second
)

// Missing says what to do where cert-manager is not installed.
const Missing = "tls.enabled needs cert-manager, whose kinds Certificate and Issuer (cert-manager.io/v1) this cluster does not have: " +
	"install cert-manager (https://cert-manager.io/docs/installation/), or take tls out; this goes on by itself then"

var kinds = []schema.GroupVersionKind{render.CertificateKind, render.IssuerKind}

// Manager is the way to cert-manager. It is safe for concurrent use.
type Manager struct {
	cluster cluster.Cluster
	now     func() time.Time

	mu sync.Mutex
	// watching is set once the kinds are there and watched.
	watching bool
	// absent is when they were last found not to be there.
	absent time.Time
	queues map[string]queue
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// New returns a Manager that sees the objects of one domain, in some namespaces or in all of them. It ends with mgr.
func New(mgr ctrl.Manager, domain string, namespaces map[string]cache.Config) (*Manager, error) {
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
		return nil, fmt.Errorf("cannot make a client for cert-manager: %w", err)
	}
	return &Manager{cluster: c, now: time.Now, queues: map[string]queue{}}, mgr.Add(c)
}

// Client reads objects of cert-manager from a cache; only for those who know that it is installed.
func (m *Manager) Client() client.Client { return m.cluster.GetClient() }

// Live reads what the cache may not show.
func (m *Manager) Live() client.Reader { return m.cluster.GetAPIReader() }

// Installed says whether cert-manager is there. The first time that it is, it is watched from then on.
func (m *Manager) Installed(ctx context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watching {
		return true, nil
	}
	if !m.absent.IsZero() && m.now().Sub(m.absent) < absentFor {
		return false, nil
	}
	for _, kind := range kinds {
		_, err := m.cluster.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			m.absent = m.now()
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("cannot look for cert-manager: %w", err)
		}
	}
	for _, kind := range kinds {
		if err := m.watch(ctx, kind); err != nil {
			return false, err
		}
	}
	m.watching = true
	return true, nil
}

// Watching says whether somebody has found cert-manager there before.
func (m *Manager) Watching() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watching
}

func (m *Manager) watch(ctx context.Context, kind schema.GroupVersionKind) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	informer, err := m.cluster.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", kind.Kind, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    m.notify,
		UpdateFunc: func(_, object any) { m.notify(object) },
		DeleteFunc: m.notify,
	})
	return err
}

// Source returns what wakes the controller of one of our kinds: an object of cert-manager that it owns was added, changed or deleted.
func (m *Manager) Source(kind string) source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.queues[kind] = q
		return nil
	})
}

func (m *Manager) notify(object any) {
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
	m.mu.Lock()
	q := m.queues[owner.Kind]
	m.mu.Unlock()
	if q != nil {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: owned.GetNamespace(), Name: owner.Name}})
	}
}
