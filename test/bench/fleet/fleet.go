// SPDX-License-Identifier: Apache-2.0

// Package fleet makes many objects of one kind and sees when they are ready.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Replicas is the number of pods of each object.
const Replicas = 3

// makers is how many requests are sent at a time.
const makers = 8

// Fleet is a number of objects, spread over namespaces.
type Fleet struct {
	// Size is the number of objects.
	Size int
	// Namespaces is how many they are spread over, and Prefix the beginning of their names.
	Namespaces int
	Prefix     string
	// Client sends the requests.
	Client client.WithWatch
}

// Keys returns the names of all objects.
func (f Fleet) Keys() []types.NamespacedName {
	keys := make([]types.NamespacedName, f.Size)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: f.namespace(i % f.Namespaces), Name: fmt.Sprintf("app-%04d", i)}
	}
	return keys
}

// Has says whether an object is in a namespace of the fleet.
func (f Fleet) Has(object client.Object) bool {
	prefix, _, found := strings.Cut(object.GetNamespace(), "-")
	return found && prefix == f.Prefix
}

func (f Fleet) namespace(i int) string { return fmt.Sprintf("%s-%02d", f.Prefix, i) }

// MakeNamespaces makes the namespaces and waits until pods can be made in them.
func (f Fleet) MakeNamespaces(ctx context.Context) error {
	for i := range f.Namespaces {
		if err := f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(i)}}); err != nil {
			return fmt.Errorf("cannot make a namespace: %w", err)
		}
	}
	for i := range f.Namespaces {
		key := types.NamespacedName{Namespace: f.namespace(i), Name: "default"}
		err := poll(ctx, func() (bool, error) {
			err := f.Client.Get(ctx, key, &corev1.ServiceAccount{})
			return err == nil, client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("namespace %q has no account for pods: %w", key.Namespace, err)
		}
	}
	return nil
}

// Each does something to every object, several at a time.
func (f Fleet) Each(ctx context.Context, do func(context.Context, types.NamespacedName) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, failures := make(chan types.NamespacedName), make(chan error, makers)
	for range makers {
		go func() {
			for key := range keys {
				if err := do(ctx, key); err != nil {
					cancel()
					failures <- fmt.Errorf("%s: %w", key, err)
					return
				}
			}
			failures <- nil
		}()
	}
send:
	for _, key := range f.Keys() {
		select {
		case keys <- key:
		case <-ctx.Done():
			break send
		}
	}
	close(keys)
	var all []error
	for range makers {
		all = append(all, <-failures)
	}
	return errors.Join(append(all, ctx.Err())...)
}

// Progress is when the objects of a fleet became ready.
type Progress struct {
	// Start is when the first request was sent.
	Start time.Time
	// Ready has, in order, how long after the start the objects became ready.
	Ready []time.Duration
}

// Total is how long it took until all were ready.
func (p Progress) Total() time.Duration { return p.Ready[len(p.Ready)-1] }

// Await acts on the objects and waits until each is ready, as the watch tells of it. alive says
// whether what is waited for still runs.
func (f Fleet) Await(ctx context.Context, list client.ObjectList, ready func(client.Object) bool,
	act func(context.Context) error, alive func() error) (Progress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := f.Client.Watch(ctx, list)
	if err != nil {
		return Progress{}, fmt.Errorf("cannot watch: %w", err)
	}
	defer func() { events.Stop() }()
	progress := Progress{Start: time.Now()}
	acted := make(chan error, 1)
	go func() { acted <- act(ctx) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	done := map[types.NamespacedName]bool{}
	note := func(object client.Object) {
		key := client.ObjectKeyFromObject(object)
		if !done[key] && ready(object) {
			done[key] = true
			progress.Ready = append(progress.Ready, time.Since(progress.Start))
		}
	}
	for len(done) < f.Size {
		select {
		case err := <-acted:
			if err != nil {
				return Progress{}, err
			}
		case <-tick.C:
			if err := alive(); err != nil {
				return Progress{}, err
			}
		case <-ctx.Done():
			return Progress{}, fmt.Errorf("%d of %d objects are ready: %w", len(done), f.Size, ctx.Err())
		case event, open := <-events.ResultChan():
			if !open {
				// A busy API server ends watches that do not keep up.
				if events, err = f.resume(ctx, list, note); err != nil {
					return Progress{}, errors.Join(ctx.Err(), err)
				}
				continue
			}
			if err := readable(event); err != nil {
				// What ends the bench ends its watches.
				return Progress{}, errors.Join(ctx.Err(), err)
			}
			note(event.Object.(client.Object)) // readable has looked.
		}
	}
	return progress, nil
}

// resume lists the objects, notes each, and watches from there.
func (f Fleet) resume(ctx context.Context, list client.ObjectList, note func(client.Object)) (watch.Interface, error) {
	if err := f.Client.List(ctx, list); err != nil {
		return watch.NewEmptyWatch(), fmt.Errorf("cannot list what was watched: %w", err)
	}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		note(item.(client.Object))
		return nil
	})
	if err != nil {
		return watch.NewEmptyWatch(), err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	events, err := f.Client.Watch(ctx, list, from)
	if err != nil {
		return watch.NewEmptyWatch(), fmt.Errorf("cannot watch again: %w", err)
	}
	return events, nil
}

func readable(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("the watch failed: %w", apierrors.FromObject(event.Object))
	}
	if _, ok := event.Object.(client.Object); !ok {
		return fmt.Errorf("the watch brought a %T", event.Object)
	}
	return nil
}

// poll asks until the answer is yes, an error, or the context ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := done()
		if yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
