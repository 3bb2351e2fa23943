// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1 "k8s.io/api/autoscaling/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := env.Client.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
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
		if err := env.Client.Patch(t.Context(), edited, client.MergeFrom(set)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	h.samePods(before)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas, s.Spec.Members = 2, "2" })
	testkit.WaitForReady(h, env.Client, set)
	delete(before, "2")
	h.samePods(before)
}

// While another set of the same component lacks a member, or members are being brought together, no pod that serves is taken out.
func TestMembersOfAllSetsAreTakenOutOneAtATime(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	members := func(s *platformv1.WorkloadSet) { s.Spec.Members = "2" }
	component := &platformv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: platformv1.ComponentNameFor("redis-a", "redis")},
		Spec: platformv1.ComponentSpec{Application: "redis-a", Component: "redis", Version: "7.0", Topology: "cluster", Replicas: 2,
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0"}, Sets: []platformv1.ComponentSet{{Name: "main"}}},
	}
	if err := env.Client.Create(t.Context(), component); err != nil {
		t.Fatal(err)
	}
	tell := func(call *platformv1.MembershipCall) {
		t.Helper()
		told := component.DeepCopy()
		told.Status.Membership = call
		if err := env.Client.Status().Patch(t.Context(), told, client.MergeFrom(component)); err != nil {
			t.Fatal(err)
		}
		component = told
	}
	set := h.create(2, members)
	testkit.WaitForReady(h, env.Client, set)
	before := h.pods()
	tell(&platformv1.MembershipCall{Pod: "p", PodUID: "u", Attempt: 1, Since: metav1.Now(), Message: "77 slots have yet to move"})
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	h.says(set, platformv1.ReasonOperationAtWork, "77 slots have yet to move")
	h.samePods(before)
	tell(nil)
	testkit.WaitForReady(h, env.Client, set)
	for name, pod := range h.pods() {
		if old := before[name]; old.UID == pod.UID {
			t.Errorf("pod %s is the same as before", name)
		}
	}
}
