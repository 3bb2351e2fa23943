// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// The controller is killed right after each of the writes that the life of a set takes, from its making to the end of
// its volumes; the next one goes on, and all is as if nothing had happened.
func TestLifeSurvivesAKillAfterEachWrite(t *testing.T) {
	h := newHarness(t)
	f, _ := h.start(-1)
	h.life()
	writes := int(f.writes.Load())
	t.Logf("the life of a set takes %d writes", writes)
	if writes < 40 {
		t.Fatalf("only %d writes were counted", writes)
	}
	for n := 1; n <= writes; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			_, done := h.start(n)
			var next sync.WaitGroup
			next.Go(func() {
				select {
				case <-done:
					h.start(-1)
				case <-t.Context().Done():
				}
			})
			t.Cleanup(next.Wait)
			h.life()
		})
	}
}

// life takes a set from its making over more and fewer pods and another template to its end.
func (h *harness) life() {
	h.Helper()
	set := h.create(3, handsOver(h), func(s *platformv1.WorkloadSet) {
		s.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete
	})
	testkit.WaitForReady(h, env.Client, set)
	h.expect(3, 3)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 5 })
	testkit.WaitForReady(h, env.Client, set)
	h.expect(5, 5)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 2 })
	testkit.WaitForReady(h, env.Client, set)
	h.expect(2, 5)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	testkit.WaitForReady(h, env.Client, set)
	h.expect(2, 5)
	for name, pod := range h.pods() {
		if pod.Labels[platformv1.RevisionLabel] != "r2" {
			h.Errorf("pod %s has revision %s", name, pod.Labels[platformv1.RevisionLabel])
		}
	}
	if calls := h.node.switches(); calls != 1 {
		h.Errorf("the primary handed over %d times, want once", calls)
	}
	if err := env.Client.Delete(h.Context(), set); err != nil {
		h.Fatal(err)
	}
	testkit.WaitGone(h, env.Client, set)
	testkit.Eventually(h, "the end of pods and claims", func(context.Context) error {
		left := slices.DeleteFunc(h.inventory(), func(name string) bool {
			return !strings.HasPrefix(name, "Pod ") && !strings.HasPrefix(name, "PersistentVolumeClaim ")
		})
		if len(left) > 0 {
			return fmt.Errorf("there still is %q", left)
		}
		return nil
	})
	for ordinal, times := range []int{2, 2, 1, 1, 1} {
		name := platformv1.PodNameFor(setName, int32(ordinal))
		if got := h.node.uids("Pod " + name); got != times {
			h.Errorf("pod %s was made %d times, want %d", name, got, times)
		}
		if got := h.node.uids("Claim data-" + name); got != 1 {
			h.Errorf("the claim of pod %s was made %d times", name, got)
		}
	}
}

// expect compares all that there is with what the given numbers of pods and of volumes mean.
func (h *harness) expect(pods, volumes int) {
	h.Helper()
	want := []string{"ConfigMap " + setName + "-plan", "Role " + setName, "RoleBinding " + setName, "ServiceAccount " +
		setName}
	for ordinal := range volumes {
		name := platformv1.PodNameFor(setName, int32(ordinal))
		want = append(want, "PersistentVolumeClaim data-"+name, "Secret "+name+"-agent")
		if ordinal < pods {
			want = append(want, "Pod "+name)
		}
	}
	slices.Sort(want)
	if got := h.inventory(); !slices.Equal(got, want) {
		h.Errorf("there is %q, want %q", got, want)
	}
	primaries := 0
	for _, pod := range h.pods() {
		if pod.Labels[platformv1.RoleLabel] == "primary" {
			primaries++
		}
	}
	if primaries != 1 {
		h.Errorf("%d pods have the primary label", primaries)
	}
}

// inventory lists everything of the set, by kind and name.
func (h *harness) inventory() []string {
	h.Helper()
	var names []string
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := env.Client.List(context.Background(), list, client.InNamespace(h.namespace),
			client.HasLabels{platformv1.SetLabel}); err != nil {
			h.Fatal(err)
		}
		kind := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", list), "*v1."), "*"), "List")
		err := apimeta.EachListItem(list, func(item runtime.Object) error {
			names = append(names, kind+" "+item.(client.Object).GetName())
			return nil
		})
		if err != nil {
			h.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}
