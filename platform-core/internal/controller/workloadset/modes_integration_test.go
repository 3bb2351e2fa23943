// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func TestStopAndStart(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Running = new(false) })
	testkit.WaitForReady(h, env.Client, set)
	h.says(set, platformv1.ReasonStopped, "running is false")
	if len(h.pods()) != 0 || set.Status.Phase != platformv1.PhaseStopped || set.Status.Replicas != 0 {
		t.Errorf("there are %d pods, phase %s", len(h.pods()), set.Status.Phase)
	}
	// A stopped set can be changed, and what it has to come back with is kept.
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision, s.Spec.Running = "r2", new(true) })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "0", "1", "2")
	for ordinal := range 3 {
		if n := h.node.uids("Claim data-" + platformv1.PodNameFor(setName, int32(ordinal))); n != 1 {
			t.Errorf("the claim of pod %d was made %d times", ordinal, n)
		}
	}
	if set.Status.Phase != platformv1.PhaseReady {
		t.Errorf("phase %s", set.Status.Phase)
	}
}

func TestSetThatIsNotToRunYetHasNoPods(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(2, func(s *platformv1.WorkloadSet) { s.Spec.Running = new(false) })
	h.says(set, platformv1.ReasonStopped, "")
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Running = new(true) })
	testkit.WaitForReady(h, env.Client, set)
	if len(h.pods()) != 2 {
		t.Errorf("there are %d pods", len(h.pods()))
	}
}

func TestSuspendedSetIsLeftAlone(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Suspend = true })
	h.says(set, platformv1.ReasonSuspended, "suspend is true")
	if !conditions.IsTrue(set, platformv1.ReadyCondition) || set.Status.Phase != platformv1.PhaseSuspended {
		t.Errorf("phase %s, conditions %+v", set.Status.Phase, set.Status.Conditions)
	}
	// Not even a role is written, nor is a pod that is gone made again.
	other := h.pods()["1"]
	if err := env.Client.Patch(t.Context(), pods.AddressOf(&other), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"`+platformv1.RoleLabel+`":"primary"}}}`))); err != nil {
		t.Fatal(err)
	}
	gone := h.pods()["2"]
	if err := env.Client.Delete(t.Context(), &gone); err != nil {
		t.Fatal(err)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision, s.Spec.Replicas = "r2", 5 })
	testkit.WaitFor(h, env.Client, set, "the new spec and two pods", func() error {
		if set.Status.ObservedGeneration != set.Generation || set.Status.Replicas != 2 {
			return fmt.Errorf("status %+v", set.Status)
		}
		return nil
	})
	if n := len(h.pods()); n != 2 {
		t.Errorf("there are %d pods", n)
	}
	if role := h.pods()["1"].Labels[platformv1.RoleLabel]; role != "primary" {
		t.Errorf("the role was changed to %q", role)
	}
	h.samePods(before)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Suspend = false })
	testkit.WaitForReady(h, env.Client, set)
	if n := len(h.pods()); n != 5 || h.pods()["1"].Labels[platformv1.RoleLabel] != "replica" {
		t.Errorf("there are %d pods", n)
	}
}

func TestNamedPodIsRemoved(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.ExcludedOrdinals = []int32{1} })
	testkit.WaitForReady(h, env.Client, set)
	if pods := h.pods(); len(pods) != 3 || pods["0"].UID != before["0"].UID || pods["2"].UID != before["2"].UID ||
		pods["3"].UID == "" {
		t.Errorf("there are pods %v", slices.Sorted(maps.Keys(pods)))
	}
	role := &rbacv1.Role{}
	want := []string{setName + "-0", setName + "-2", setName + "-3"}
	testkit.Eventually(h, "the agents' rights", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: setName}, role); err != nil {
			return err
		}
		if got := role.Rules[1].ResourceNames; !slices.Equal(got, want) {
			return fmt.Errorf("agents may patch %q, want %q", got, want)
		}
		return nil
	})
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 2 })
	testkit.WaitForReady(h, env.Client, set)
	if pods := h.pods(); len(pods) != 2 || pods["2"].UID != before["2"].UID {
		t.Errorf("there are pods %v", slices.Sorted(maps.Keys(pods)))
	}
}

func TestPodsInOrder(t *testing.T) {
	h := newHarness(t)
	h.node.set(func() { h.node.absent["redis:1"] = true })
	h.start(-1)
	set := h.create(2, func(s *platformv1.WorkloadSet) {
		s.Spec.PodManagementPolicy = platformv1.PodManagementOrderedReady
	})
	h.says(set, platformv1.ReasonImageUnavailable, "pod "+setName+"-0")
	if pods := h.pods(); len(pods) != 1 {
		t.Errorf("there are pods %v while the first is not ready", slices.Sorted(maps.Keys(pods)))
	}
	h.node.set(func() { h.node.absent = map[string]bool{} })
	h.nudge("0")
	testkit.WaitForReady(h, env.Client, set)
	if pods := h.pods(); len(pods) != 2 {
		t.Errorf("there are pods %v", slices.Sorted(maps.Keys(pods)))
	}
}

// In a namespace that is being deleted nothing can be made: that is no error.
func TestNamespaceThatEnds(t *testing.T) {
	h := newHarness(t)
	var mu sync.Mutex
	var failures []string
	h.log = funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, args)
	}, funcr.Options{})
	h.start(-1)
	set, _ := h.ready()
	err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range h.pods() {
		if err := env.Client.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	h.says(set, platformv1.ReasonDeleting, "the namespace is being deleted")
	mu.Lock()
	defer mu.Unlock()
	for _, failure := range failures {
		if strings.Contains(failure, "Reconciler error") {
			t.Error(failure)
		}
	}
}
