// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestKeysAreSpreadAndUnique(t *testing.T) {
	f := Fleet{Size: 25, Namespaces: 10, Prefix: "n"}
	namespaces, names := map[string]int{}, map[types.NamespacedName]bool{}
	for _, key := range f.Keys() {
		namespaces[key.Namespace]++
		names[key] = true
	}
	if len(names) != 25 || len(namespaces) != 10 || namespaces["n-00"] != 3 || namespaces["n-09"] != 2 {
		t.Errorf("%d names in %v", len(names), namespaces)
	}
}

func TestEachReachesAll(t *testing.T) {
	var count atomic.Int32
	f := Fleet{Size: 100, Namespaces: 3, Prefix: "n"}
	err := f.Each(t.Context(), func(context.Context, types.NamespacedName) error { count.Add(1); return nil })
	if err != nil || count.Load() != 100 {
		t.Errorf("%d calls, %v", count.Load(), err)
	}
}

func TestEachEndsWithTheFirstErrors(t *testing.T) {
	var count atomic.Int32
	broken := errors.New("broken")
	f := Fleet{Size: 1000, Namespaces: 3, Prefix: "n"}
	err := f.Each(t.Context(), func(context.Context, types.NamespacedName) error { count.Add(1); return broken })
	if !errors.Is(err, broken) || count.Load() > 2*makers {
		t.Errorf("%d calls, %v", count.Load(), err)
	}
}

const rendered = `apiVersion: platform.zeroinfra.github.com/v1
kind: Component
metadata: {name: bench-name-cell}
---
apiVersion: platform.zeroinfra.github.com/v1
kind: WorkloadSet
metadata: {name: bench-name-cell-main}
spec:
  template:
    metadata: {labels: {of: bench-name}}
    spec:
      serviceAccountName: bench-name-cell-main
      containers: [{name: cell, image: x}]
      volumes: [{name: tls, secret: {secretName: "${pod.name}-agent"}}]
`

func TestBaselineHasThePodsOfTheApplication(t *testing.T) {
	b, err := NewBaseline([]byte(rendered))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := b.Objects(types.NamespacedName{Namespace: "n", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	set := objects[1].(*appsv1.StatefulSet)
	pod := set.Spec.Template
	if set.Name != "a" || set.Namespace != "n" || *set.Spec.Replicas != Replicas || pod.Labels["of"] != "a" ||
		pod.Labels[selectorLabel] != "a" ||
		pod.Spec.ServiceAccountName != "" || pod.Spec.Containers[0].Image != "x" ||
		pod.Spec.Volumes[0].Secret.SecretName != "a-agent" {
		t.Errorf("got %+v", set)
	}
	if _, err := NewBaseline([]byte("kind: Component\n")); err == nil || !strings.Contains(err.Error(), "WorkloadSet") {
		t.Errorf("without a WorkloadSet: %v", err)
	}
}

func TestReady(t *testing.T) {
	app := Application(types.NamespacedName{Namespace: "n", Name: "a"})
	app.Generation, app.Status.ObservedGeneration = 2, 2
	if ApplicationReady(1)(app) {
		t.Error("an Application without conditions is ready")
	}
	app.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue}}
	if !ApplicationReady(2)(app) || ApplicationReady(3)(app) {
		t.Error("the generation does not count")
	}
	app.Status.ObservedGeneration = 1
	if ApplicationReady(1)(app) {
		t.Error("a status of an older spec counts")
	}
	set := &appsv1.StatefulSet{}
	if set.Status.ReadyReplicas = Replicas - 1; StatefulSetReady(set) {
		t.Error("a StatefulSet that lacks a pod is ready")
	}
	if set.Status.ReadyReplicas = Replicas; !StatefulSetReady(set) || StatefulSetReady(&corev1.Pod{}) {
		t.Error("a StatefulSet with all pods is not ready, or a pod is")
	}
}
