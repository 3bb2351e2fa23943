// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Pods that are members of one cluster go only with what says which members there are.
func TestMembersAreNotScaledByThemselves(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set := h.create(3, func(s *platformv1.WorkloadSet) { s.Spec.Members = "3" })
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	const says = "have to leave it before they go"
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name},
		Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := env.Client.SubResource("scale").Update(t.Context(), set,
		client.WithSubResourceBody(scale)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("a scale gave %v", err)
	}
	for name, change := range map[string]func(*platformv1.WorkloadSetSpec){
		"fewer":        func(s *platformv1.WorkloadSetSpec) { s.Replicas = 2 },
		"more":         func(s *platformv1.WorkloadSetSpec) { s.Replicas = 4 },
		"another pod":  func(s *platformv1.WorkloadSetSpec) { s.ExcludedOrdinals = []int32{0} },
		"another, too": func(s *platformv1.WorkloadSetSpec) { s.Replicas, s.ExcludedOrdinals = 2, []int32{0} },
	} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		edited := set.DeepCopy()
		change(&edited.Spec)
		if err := env.Client.Patch(t.Context(), edited, client.MergeFrom(set)); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	h.samePods(before)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas, s.Spec.Members = 2, "2" })
	testkit.WaitForReady(h, env.Client, set)
	delete(before, "2")
	h.samePods(before)
}

// cluster makes the Component of a cluster and two sets of two members each, and waits until they are ready.
func (h *harness) cluster() (*platformv1.Component, []*platformv1.WorkloadSet) {
	h.Helper()
	component := &platformv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: platformv1.ComponentNameFor("redis-a", "redis")},
		Spec: platformv1.ComponentSpec{Application: "redis-a", Component: "redis", Version: "7.0", Topology: "cluster",
			Replicas: 2,
			Plugin:   platformv1.PluginReference{Name: "redis", Version: "1.0.0"},
			Sets:     []platformv1.ComponentSet{{Name: "main"}, {Name: "more"}}},
	}
	if err := env.Client.Create(h.Context(), component); err != nil {
		h.Fatal(err)
	}
	members := func(s *platformv1.WorkloadSet) { s.Spec.Members = "2" }
	sets := []*platformv1.WorkloadSet{h.create(2, members), h.create(2, members, func(s *platformv1.WorkloadSet) {
		s.Name, s.Spec.Set, s.Labels[platformv1.SetLabel] = platformv1.WorkloadSetNameFor("redis-a", "redis", "more"), "more",
			"more"
		original().fill(h, &s.Spec)
	})}
	for _, set := range sets {
		testkit.WaitForReady(h, env.Client, set)
	}
	return component, sets
}

// While members are being brought together, no pod that serves is taken out.
func TestMembersAreLeftAloneWhileTheyAreBroughtTogether(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	component, sets := h.cluster()
	set := sets[0]
	tell := func(call *platformv1.MembershipCall) {
		t.Helper()
		told := component.DeepCopy()
		told.Status.Membership = call
		if err := env.Client.Status().Patch(t.Context(), told, client.MergeFrom(component)); err != nil {
			t.Fatal(err)
		}
		component = told
	}
	before := h.pods()
	tell(&platformv1.MembershipCall{Pod: "p", PodUID: "u", Attempt: 1, Since: metav1.Now(),
		Message: "77 slots have yet to move"})
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	h.says(set, platformv1.ReasonOperationAtWork, "77 slots have yet to move")
	h.samePods(before)
	tell(nil)
	testkit.WaitForReady(h, env.Client, set)
	for name, pod := range h.pods() {
		if old := before[name]; (old.UID == pod.UID) != (setOf(&pod) != set.Name) {
			t.Errorf("pod %s is the same as before: %t", name, old.UID == pod.UID)
		}
	}
}

// takenOut waits until one pod of two sets is on its way out, by what the node was asked for, and the other set says
// that it waits for it.
func (h *harness) takenOut(sets []*platformv1.WorkloadSet, asked func(*corev1.Pod) bool) *corev1.Pod {
	h.Helper()
	var out *corev1.Pod
	testkit.Eventually(h, "one pod to be taken out, and the other set to wait for it", func(ctx context.Context) error {
		out = nil
		for _, pod := range h.pods() {
			switch {
			case !asked(&pod):
			case out != nil:
				h.Fatalf("%s and %s are taken out at once", out.Name, pod.Name)
			default:
				out = &pod
			}
		}
		if out == nil {
			return fmt.Errorf("none is")
		}
		for _, set := range sets {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			ready := conditions.Get(set, platformv1.ReadyCondition)
			if set.Name == setOf(out) || ready.ObservedGeneration == set.Generation && ready.Status == metav1.ConditionTrue {
				continue
			}
			if ready.ObservedGeneration != set.Generation || !strings.Contains(ready.Message, "waits for pod "+out.Name) {
				return fmt.Errorf("set %s says %+v", set.Name, ready)
			}
		}
		return nil
	})
	return out
}

// While a member of another set is out, or is about to be although nothing shows of that yet, no other one is taken
// out.
func TestMembersOfAllSetsAreTakenOutOneAtATime(t *testing.T) {
	h := newHarness(t)
	f, done := h.start(-1)
	_, sets := h.cluster()
	h.node.set(func() { h.node.slow = true })
	both := func(change func(*platformv1.WorkloadSet)) {
		t.Helper()
		for _, set := range sets {
			h.change(set, change)
		}
	}
	finish := func(pod *corev1.Pod) {
		t.Helper()
		if err := h.node.finish(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	c := original()
	c.Image = "redis:2"
	both(func(s *platformv1.WorkloadSet) { c.fill(t, &s.Spec) })
	for range 4 {
		finish(h.takenOut(sets, func(pod *corev1.Pod) bool {
			return pod.Spec.Containers[0].Image != pod.Status.ContainerStatuses[0].Image
		}))
	}
	for _, set := range sets {
		testkit.WaitForReady(h, env.Client, set)
	}
	c.Plan = planOf("d2", "s2")
	both(func(s *platformv1.WorkloadSet) { c.fill(t, &s.Spec) })
	called := func(pod *corev1.Pod) (is bool) {
		h.node.set(func() {
			call, noted := h.node.noted[pod.Name]
			is = noted && !call.done
		})
		return is
	}
	for i := range 4 {
		out := h.takenOut(sets, called)
		if err := h.node.begin(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		// Another operator has only what the pod reports. It looks at the other set since that changes.
		f.kill()
		<-done
		f, done = h.start(-1)
		for _, set := range sets {
			if set.Name != setOf(out) {
				h.change(set, func(s *platformv1.WorkloadSet) {
					s.Spec.DeletionPolicy = []platformv1.DeletionPolicy{platformv1.DeletionPolicyDelete,
						platformv1.DeletionPolicyRetain}[i%2]
				})
			}
		}
		finish(h.takenOut(sets, called))
	}
	for _, set := range sets {
		testkit.WaitForReady(h, env.Client, set)
	}
	// A reload takes nothing out; the restart in place of one that was refused does.
	h.node.set(func() { h.node.refuseReload = true })
	c.Plan = planOf("d3", "s2")
	both(func(s *platformv1.WorkloadSet) { c.fill(t, &s.Spec) })
	for range 4 {
		finish(h.takenOut(sets, called))
	}
	for _, set := range sets {
		testkit.WaitForReady(h, env.Client, set)
	}
}
