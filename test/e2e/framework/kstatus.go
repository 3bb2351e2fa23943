// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

var reasonShape = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// lintConditions says where a status, as anyone may see it at any moment, breaks the rules of kstatus.
func lintConditions(generation, observed int64, conditions []metav1.Condition) []string {
	if len(conditions) == 0 {
		return nil // nobody has looked at it yet
	}
	var wrong []string
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf(format, args...)+": "+Describe(conditions))
	}
	if observed < 1 || observed > generation {
		complain("observedGeneration is %d at generation %d", observed, generation)
	}
	ready := meta.IsStatusConditionTrue(conditions, platformv1.ReadyCondition)
	reconciling := meta.IsStatusConditionTrue(conditions, platformv1.ReconcilingCondition)
	stalled := meta.IsStatusConditionTrue(conditions, platformv1.StalledCondition)
	switch {
	case ready && (reconciling || stalled):
		complain("Ready beside Reconciling or Stalled")
	case !ready && !reconciling && !stalled:
		complain("neither Ready nor Reconciling nor Stalled")
	case reconciling && stalled:
		complain("Reconciling beside Stalled")
	}
	for _, c := range conditions {
		if !reasonShape.MatchString(c.Reason) || c.Message == "" || c.LastTransitionTime.IsZero() {
			complain("condition %s lacks a reason in CamelCase, a message or a time", c.Type)
		}
	}
	return wrong
}

// lintStatuses watches every object of the suite in the namespace of the test, from now on, and has the test
// fail when one of them ever shows a status that breaks the rules of kstatus.
func (s *Namespace) lintStatuses() {
	s.Helper()
	dynamicClient, err := dynamic.NewForConfig(Cluster.Config)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var (
		running sync.WaitGroup
		mutex   sync.Mutex
		wrong   = map[string]int{}
		seen    int
	)
	look := func(object *unstructured.Unstructured) {
		mutex.Lock()
		defer mutex.Unlock()
		seen++
		for _, complaint := range lintObject(object) {
			wrong[object.GetKind()+" "+object.GetName()+": "+complaint]++
		}
	}
	for _, resource := range []schema.GroupVersionResource{
		databasev1.GroupVersion.WithResource("redis"),
		databasev1.GroupVersion.WithResource("postgresqls"),
		platformv1.GroupVersion.WithResource("applications"),
		platformv1.GroupVersion.WithResource("components"),
		platformv1.GroupVersion.WithResource("workloadsets"),
		platformv1.GroupVersion.WithResource("operations"),
		platformv1.GroupVersion.WithResource("entities"),
	} {
		watcher, err := dynamicClient.Resource(resource).Namespace(s.Name).Watch(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			// The operator of that kind is not installed.
			continue
		}
		if err != nil {
			cancel()
			s.Fatalf("cannot watch %s: %v", resource.Resource, err)
		}
		running.Go(func() {
			for event := range watcher.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted {
					look(object)
				}
			}
		})
	}
	s.Cleanup(func() {
		cancel()
		running.Wait()
		for complaint, times := range wrong {
			s.Errorf("status seen %d times: %s", times, complaint)
		}
		if seen == 0 {
			s.Log("no object of the suite was seen in this namespace")
		}
	})
}

func lintObject(object *unstructured.Unstructured) []string {
	observed, conditions, err := statusOf(object)
	if err != nil {
		return []string{err.Error()}
	}
	return lintConditions(object.GetGeneration(), observed, conditions)
}

// statusOf reads the observed generation and the conditions of an object of any kind; none of a status that is absent.
func statusOf(object *unstructured.Unstructured) (observed int64, conditions []metav1.Condition, err error) {
	status, found, err := unstructured.NestedMap(object.Object, "status")
	if err != nil || !found {
		return 0, nil, nil
	}
	observed, _, _ = unstructured.NestedInt64(status, "observedGeneration")
	list, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			return observed, nil, fmt.Errorf("condition %v is no object", entry)
		}
		text := func(name string) string { value, _ := fields[name].(string); return value }
		condition := metav1.Condition{Type: text("type"), Status: metav1.ConditionStatus(text("status")),
			Reason: text("reason"), Message: text("message")}
		if err := condition.LastTransitionTime.UnmarshalQueryParameter(text("lastTransitionTime")); err != nil {
			return observed, nil, err
		}
		conditions = append(conditions, condition)
	}
	return observed, conditions, nil
}

// Current says what keeps any object from being current by the rules of kstatus: at its present generation, with the
// condition Ready, and neither Reconciling nor Stalled. One that is not of the suite is current when it is there.
func Current(object *unstructured.Unstructured) error {
	if !strings.HasSuffix(object.GroupVersionKind().Group, ".zeroinfra.github.com") {
		return nil
	}
	observed, conditions, err := statusOf(object)
	if err != nil {
		return err
	}
	if observed != object.GetGeneration() {
		return fmt.Errorf("its status is of generation %d and its spec of generation %d", observed, object.GetGeneration())
	}
	for _, unwanted := range []string{platformv1.ReconcilingCondition, platformv1.StalledCondition} {
		if meta.IsStatusConditionTrue(conditions, unwanted) {
			return fmt.Errorf("it is %s: %s", unwanted, Describe(conditions))
		}
	}
	if !meta.IsStatusConditionTrue(conditions, platformv1.ReadyCondition) {
		return fmt.Errorf("it is not ready: %s", Describe(conditions))
	}
	return nil
}

// WaitForReady waits until an object of any kind is there and Current. The object is read again. It returns how long
// that took.
func (s *Namespace) WaitForReady(object *unstructured.Unstructured) time.Duration {
	s.Helper()
	what := fmt.Sprintf("%s %q becomes ready", object.GetKind(), object.GetName())
	return s.Eventually(ReadyTimeout, what, func() error {
		if err := Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return Current(object)
	})
}
