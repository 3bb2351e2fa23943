// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostLeftovers is how many namespaces of ended tests there are at most: to empty several takes hardly longer than to
// empty one.
const mostLeftovers = 4

// leftovers are the namespaces of tests that have ended. No controller of this API server would empty
// them, and what a test starts would have to handle the objects of all tests before it.
type leftovers struct {
	mu         sync.Mutex
	namespaces []string
}

// Namespace makes a namespace with a name of its own for one test. What is in those of tests that have ended is deleted
// before, once there are a few.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	e.leftovers.mu.Lock()
	defer e.leftovers.mu.Unlock()
	if err := e.sweep(context.Background()); err != nil {
		t.Fatalf("cannot clean up after the tests before: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(context.Background(), namespace); err != nil {
		t.Fatalf("cannot create a namespace: %v", err)
	}
	t.Cleanup(func() {
		e.leftovers.mu.Lock()
		defer e.leftovers.mu.Unlock()
		e.leftovers.namespaces = append(e.leftovers.namespaces, namespace.Name)
	})
	return namespace.Name
}

// sweep deletes the leftovers, once there are mostLeftovers, with all that is in them, whatever finalizers that has.
// What there is of a resource is listed once for all of them, since most namespaces hold nothing of most resources.
func (e *Env) sweep(ctx context.Context) error {
	if len(e.leftovers.namespaces) < mostLeftovers {
		return nil
	}
	resources, err := e.namespaced()
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(e.Config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	for _, name := range e.leftovers.namespaces {
		// From now on nothing is made there, by whatever still runs.
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := e.Client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cannot delete namespace %q: %w", name, err)
		}
	}
	for _, resource := range resources {
		if err := e.empty(ctx, objects.Resource(resource)); err != nil {
			return fmt.Errorf("cannot delete the %s of ended tests: %w", resource.Resource, err)
		}
	}
	for _, name := range e.leftovers.namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := client.IgnoreNotFound(e.Client.SubResource("finalize").Update(ctx, namespace)); err != nil {
			return fmt.Errorf("cannot delete namespace %q: %w", name, err)
		}
	}
	e.leftovers.namespaces = nil
	return nil
}

// namespaced returns what there is in namespaces that can be deleted as a whole.
func (e *Env) namespaced() ([]schema.GroupVersionResource, error) {
	served, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	lists, err := served.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("cannot ask what the API server serves: %w", err)
	}
	var found []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			// Endpoints go with their Service, and the server warns of them.
			if resource.Name != "endpoints" && slices.Contains(resource.Verbs, "deletecollection") &&
				slices.Contains(resource.Verbs, "patch") {
				found = append(found, gv.WithResource(resource.Name))
			}
		}
	}
	return found, nil
}

// empty deletes all objects of a resource in the leftovers.
func (e *Env) empty(ctx context.Context, objects metadata.Getter) error {
	all, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	held := map[string]bool{}
	for _, object := range all.Items {
		held[object.Namespace] = true
	}
	for _, namespace := range e.leftovers.namespaces {
		if !held[namespace] {
			continue
		}
		if err := emptyIn(ctx, objects.Namespace(namespace)); err != nil {
			return err
		}
	}
	return nil
}

// emptyIn deletes all objects of a resource in a namespace at once.
func emptyIn(ctx context.Context, objects metadata.ResourceInterface) error {
	at := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)),
		PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := objects.DeleteCollection(ctx, at, metav1.ListOptions{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	held, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, object := range held.Items {
		_, err := objects.Patch(ctx, object.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
