// SPDX-License-Identifier: Apache-2.0

package secretwatch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Watcher watches Secrets by name on behalf of owners, which are objects that one
// controller reconciles. It is safe for concurrent use.
type Watcher struct {
	secrets typedcorev1.SecretsGetter

	mu      sync.Mutex
	closed  bool
	watches map[types.NamespacedName]*secretWatch
	// wanted holds the Secrets of each owner.
	wanted map[types.NamespacedName]map[types.NamespacedName]struct{}
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	// running counts the watches that have not yet ended, those that are told to end included.
	running sync.WaitGroup
}

type secretWatch struct {
	owners map[types.NamespacedName]struct{}
	store  cache.Store
	synced func() bool
	stop   context.CancelFunc
}

// New returns a Watcher of the cluster that the configuration leads to.
func New(config *rest.Config) (*Watcher, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the Secrets that users supply: %w", err)
	}
	return &Watcher{
		secrets: client,
		watches: map[types.NamespacedName]*secretWatch{},
		wanted:  map[types.NamespacedName]map[types.NamespacedName]struct{}{},
	}, nil
}

// Source returns what wakes a controller: the owners of a Secret that was added, changed or
// deleted. It can feed one controller; when that ends, every watch does.
func (w *Watcher) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.queue != nil {
			return fmt.Errorf("cannot start a source of Secrets twice")
		}
		w.queue = queue
		context.AfterFunc(ctx, w.Close)
		return nil
	})
}

// Ensure registers the interest of an owner in a Secret. It does not wait for the
// watch and may be called any number of times; ctx is not kept.
func (w *Watcher) Ensure(_ context.Context, secret, owner types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	entry := w.watches[secret]
	if entry == nil {
		entry = w.begin(secret)
		w.watches[secret] = entry
	}
	entry.owners[owner] = struct{}{}
	if w.wanted[owner] == nil {
		w.wanted[owner] = map[types.NamespacedName]struct{}{}
	}
	w.wanted[owner][secret] = struct{}{}
}

// Release ends the interest of an owner in every Secret but those to keep. A watch that nobody wants any more ends.
func (w *Watcher) Release(owner types.NamespacedName, keep ...types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for secret := range w.wanted[owner] {
		if slices.Contains(keep, secret) {
			continue
		}
		delete(w.wanted[owner], secret)
		entry := w.watches[secret]
		delete(entry.owners, owner)
		if len(entry.owners) == 0 {
			entry.stop()
			delete(w.watches, secret)
		}
	}
	if len(w.wanted[owner]) == 0 {
		delete(w.wanted, owner)
	}
}

// Get returns a copy of a Secret: from its watch when that is up to date, else from the API
// server. The error of a Secret that is absent satisfies apierrors.IsNotFound.
func (w *Watcher) Get(ctx context.Context, secret types.NamespacedName) (*corev1.Secret, error) {
	w.mu.Lock()
	entry := w.watches[secret]
	w.mu.Unlock()
	if entry == nil || !entry.synced() {
		return w.secrets.Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	}
	item, found, err := entry.store.GetByKey(secret.String())
	if err != nil {
		return nil, fmt.Errorf("cannot read Secret %q from its watch: %w", secret, err)
	}
	if !found {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), secret.Name)
	}
	return item.(*corev1.Secret).DeepCopy(), nil
}

// Close ends every watch and waits until they have ended. After that nothing is watched any more.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.closed = true
	for secret, entry := range w.watches {
		entry.stop()
		delete(w.watches, secret)
	}
	clear(w.wanted)
	w.mu.Unlock()
	w.running.Wait()
}

// begin starts the watch of one Secret.
func (w *Watcher) begin(secret types.NamespacedName) *secretWatch {
	ctx, stop := context.WithCancel(context.Background())
	notify := func() { w.notify(secret) }
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: w.listWatch(secret),
		ObjectType:    &corev1.Secret{},
		Transform:     withoutManagedFields,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		},
	})
	w.running.Go(func() { informer.RunWithContext(ctx) })
	return &secretWatch{owners: map[types.NamespacedName]struct{}{}, store: store, synced: informer.HasSynced, stop: stop}
}

func (w *Watcher) listWatch(secret types.NamespacedName) *cache.ListWatch {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, secret.Name).String()
	client := w.secrets.Secrets(secret.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return client.Watch(ctx, options)
		},
	}
}

// notify wakes everyone who is interested in the Secret.
func (w *Watcher) notify(secret types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry := w.watches[secret]
	if entry == nil || w.queue == nil {
		return
	}
	for owner := range entry.owners {
		w.queue.Add(reconcile.Request{NamespacedName: owner})
	}
}

func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
