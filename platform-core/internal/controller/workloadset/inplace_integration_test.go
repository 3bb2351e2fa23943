// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// ready makes a set of three pods and forgets what that took.
func (h *harness) ready(changes ...func(*platformv1.WorkloadSet)) (*platformv1.WorkloadSet, map[string]corev1.Pod) {
	h.Helper()
	set := h.create(3, changes...)
	testkit.WaitForReady(h, env.Client, set)
	h.node.events()
	return set, h.pods()
}

// render changes what the set was rendered from.
func (h *harness) render(set *platformv1.WorkloadSet, change func(*content)) {
	h.Helper()
	c := original()
	change(&c)
	h.change(set, func(s *platformv1.WorkloadSet) { c.fill(h, &s.Spec) })
}

// samePods fails when one of the pods is another than before; made names those that are to be.
func (h *harness) samePods(before map[string]corev1.Pod, made ...string) {
	h.Helper()
	for ordinal, pod := range h.pods() {
		if same := pod.UID == before[ordinal].UID; same == slices.Contains(made, ordinal) {
			h.Errorf("pod %s is the same as before: %v", ordinal, same)
		}
	}
}

func TestAnotherImageReplacesNoPod(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.node.set(func() { h.node.absent["redis:2"] = true })
	h.render(set, func(c *content) { c.Image = "redis:2" })
	h.says(set, platformv1.ReasonImageUnavailable, "1 of 3 updated, waiting for "+setName+"-2")
	h.sameEvents("2 starts redis:2")
	// The image is mended, and it goes on at once with the pod that is out.
	h.render(set, func(c *content) { c.Image = "redis:3" })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:3", "1 starts redis:3", "0 starts redis:3")
	h.tells(set, "UpdatingImage", each("UpdateImage %s: its image changed")...)
	h.samePods(before)
	if set.Status.UpdatedReplicas != 3 {
		t.Errorf("%d are updated", set.Status.UpdatedReplicas)
	}
	for ordinal, pod := range h.pods() {
		if pod.Spec.InitContainers[0].Image != "agent:1" || pod.Spec.Containers[1].Image != "redis:3" {
			t.Errorf("pod %s has images %q and %q", ordinal, pod.Spec.InitContainers[0].Image, pod.Spec.Containers[1].Image)
		}
	}
	// Another agent is no reason to touch a pod.
	h.change(set, func(s *platformv1.WorkloadSet) {
		c := original()
		c.Image = "redis:3"
		c.fill(h, &s.Spec)
		s.Spec.Template.Raw = []byte(strings.Replace(string(s.Spec.Template.Raw), "agent:1", "agent:2", 1))
	})
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents()
	h.samePods(before)
}

// A kubelet brings changed Secrets whenever a pod changes, and else within a minute or two: an agent that waits for
// some has its pod changed, once for each plan.
func TestAnAgentThatWaitsForSecretsHasItsPodChanged(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.node.set(func() { h.node.unbrought = true })
	for _, digest := range []string{"d2", "d3"} {
		h.render(set, func(c *content) { c.Plan = planOf(digest, digest) })
		testkit.WaitForReady(h, env.Client, set)
		h.sameEvents("2 restarts", "1 restarts", "0 restarts")
		for ordinal, pod := range h.pods() {
			if got := pod.Annotations[platformv1.AwaitedAnnotation]; got != digest {
				t.Errorf("pod %s awaits plan %q, want %q", ordinal, got, digest)
			}
		}
	}
	h.samePods(before)
}

// What runs came from somewhere: that the same image now comes from elsewhere is for pods that are made, and for one
// that has none.
func TestAnotherRegistryTouchesNothingThatRuns(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	from := func(registry, image string) {
		h.render(set, func(c *content) { c.Registry, c.Image = registry, image })
	}
	from("mirror.example.com/", "redis:1")
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents()
	h.samePods(before)
	if set.Status.UpdatedReplicas != 3 {
		t.Errorf("%d are updated", set.Status.UpdatedReplicas)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 4 })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("3 starts mirror.example.com/redis:1")
	h.samePods(before, "3")
	// Another image comes from the registry of the day, and waits there until it can be had.
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 3 })
	testkit.WaitForReady(h, env.Client, set)
	h.node.set(func() { h.node.absent["mirror.example.com/redis:2"] = true })
	from("mirror.example.com/", "redis:2")
	h.says(set, platformv1.ReasonImageUnavailable, "mend the registry setting")
	from("other.example.com/", "redis:2")
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts mirror.example.com/redis:2", "2 starts other.example.com/redis:2",
		"1 starts other.example.com/redis:2", "0 starts other.example.com/redis:2")
	h.samePods(before)
	from("", "redis:2")
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents()
}

// knowsNode makes the object of the node that pods are on. From 1.36 on an API server takes other resources only where
// it knows a node that can have them.
func (h *harness) knowsNode() {
	h.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi"),
			corev1.ResourceCPU: resource.MustParse("4")}}}
	if err := env.Client.Create(h.Context(), node); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = env.Client.Delete(context.Background(), node) })
}

func TestResourcesAreGivenInPlace(t *testing.T) {
	h := newHarness(t)
	h.knowsNode()
	h.start(-1)
	set, before := h.ready()
	h.render(set, func(c *content) { c.Resources = resources("150Mi", "300Mi") })
	if !h.resizable {
		h.otherPods(set, before)
		return
	}
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 gets 150Mi", "1 gets 150Mi", "0 gets 150Mi")
	h.tells(set, "ResizingPod", each("ResizePod %s: its resources changed")...)
	h.samePods(before)
	// What the server adds by itself is no difference: only a limit is asked for, the request follows from it.
	h.render(set, func(c *content) {
		c.Resources = resources("150Mi", "300Mi")
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2000m")
	})
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before)
	for ordinal, pod := range h.pods() {
		if cpu := pod.Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != "2" && !cpu.IsZero() {
			t.Errorf("pod %s requests %s", ordinal, cpu)
		}
	}
	writes := h.writesWhile(func() { h.touch(set); testkit.WaitForReady(h, env.Client, set) })
	if writes > 0 {
		t.Errorf("%d pods were written at rest", writes)
	}
	// A limit that is gone, and another class of service, need other pods.
	h.render(set, func(c *content) { c.Resources = corev1.ResourceRequirements{} })
	testkit.WaitForReady(h, env.Client, set)
	h.samePods(before, "0", "1", "2")
	h.tells(set, "ReplacingPod", each("DeletePod %s: its resources cannot change in place")...)
	for ordinal, pod := range h.pods() {
		if pod.Status.QOSClass != corev1.PodQOSBestEffort {
			t.Errorf("pod %s has class %s", ordinal, pod.Status.QOSClass)
		}
	}
}

// writesWhile returns how many times a pod was written during do.
func (h *harness) writesWhile(do func()) int {
	h.Helper()
	before := h.pods()
	do()
	changed := 0
	for ordinal, pod := range h.pods() {
		if pod.ResourceVersion != before[ordinal].ResourceVersion {
			changed++
		}
	}
	return changed
}

func TestServerWithoutResizeGetsOtherPods(t *testing.T) {
	h := newHarness(t)
	h.resizable = false
	h.start(-1)
	set, before := h.ready()
	h.render(set, func(c *content) { c.Resources = resources("150Mi", "300Mi") })
	h.otherPods(set, before)
}

// otherPods waits for what a server that does not resize pods comes to: another pod for each, the primary last.
func (h *harness) otherPods(set *platformv1.WorkloadSet, before map[string]corev1.Pod) {
	h.Helper()
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "1 starts redis:1", "0 starts redis:1")
	h.tells(set, "ReplacingPod", each("DeletePod %s: its resources cannot change in place: this version of Kubernetes "+
		"does not resize pods")...)
	h.samePods(before, "0", "1", "2")
}

func TestNodeHasNoRoomNow(t *testing.T) {
	h := newHarness(t)
	h.knowsNode()
	h.start(-1)
	set, before := h.ready()
	h.node.set(func() { h.node.answer, h.node.answeredAt = corev1.PodReasonDeferred, metav1.Now() })
	h.render(set, func(c *content) { c.Resources = resources("150Mi", "300Mi") })
	if !h.resizable {
		h.otherPods(set, before)
		return
	}
	h.says(set, platformv1.ReasonResizePending, "0 of 3 updated, waiting for "+setName+"-2: pod "+setName+
		"-2: its node has no room for the new resources now (no room)")
	h.sameEvents()
	h.samePods(before)
	// After some minutes it is made anew, and then the next one is asked.
	h.node.set(func() { h.node.answeredAt = metav1.NewTime(time.Now().Add(pods.ResizePatience)) })
	h.clock.Store(int64(pods.ResizePatience))
	h.touch(set)
	h.says(set, platformv1.ReasonResizePending, "1 of 3 updated, waiting for "+setName+"-1")
	h.sameEvents("2 starts redis:1")
	h.samePods(before, "2")
	h.clock.Store(0)
	h.node.set(func() { h.node.answer = "" })
	h.nudge("1")
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("1 gets 150Mi", "0 gets 150Mi")
	h.samePods(before, "2")
}

// nudge has the node look at a pod again.
func (h *harness) nudge(ordinal string) {
	h.Helper()
	pod := h.pods()[ordinal]
	if err := h.node.syncPod(h.Context(), &pod); err != nil {
		h.Fatal(err)
	}
}

func TestNodeCanNeverHaveRoom(t *testing.T) {
	h := newHarness(t)
	h.knowsNode()
	h.start(-1)
	set, before := h.ready(func(s *platformv1.WorkloadSet) { s.Spec.Volumes = nil })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "big-" + h.namespace},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "of", Value: "others", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi"),
			corev1.ResourceCPU: resource.MustParse("8")}}}
	if err := env.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), node) })
	h.node.set(func() { h.node.answer, h.node.answeredAt = corev1.PodReasonInfeasible, metav1.Now() })
	h.render(set, func(c *content) { c.Resources = resources("32Gi", "33Gi") })
	if !h.resizable {
		h.otherPods(set, before)
		return
	}
	h.says(set, platformv1.ReasonResizeInfeasible, "add a node that has room, or lower the resources")
	h.samePods(before)
	// The node takes pods of everyone: the pods go there, the primary last.
	open := node.DeepCopy()
	if err := testkit.Edit(t.Context(), env.Client, open, func() { open.Spec.Taints = nil }); err != nil {
		t.Fatal(err)
	}
	h.touch(set)
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "1 starts redis:1", "0 starts redis:1")
	h.samePods(before, "0", "1", "2")
}

// TestAnAgentThatIsTooOldGoesWithItsPod, in its turn; where another pod would have no other agent, nothing is touched
// and somebody is told.
func TestAnAgentThatIsTooOldGoesWithItsPod(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.node.set(func() { h.node.outdated = "agent:1" })
	h.render(set, func(c *content) { c.Plan = planOf("d2", "s2") })
	h.says(set, platformv1.ReasonConfigurationPending, "pod "+setName+"-2: the agent is too old")
	h.sameEvents()
	h.samePods(before)
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Spec.Template.Raw = []byte(strings.Replace(string(s.Spec.Template.Raw), "agent:1", "agent:2", 1))
	})
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 starts redis:1", "1 starts redis:1", "0 starts redis:1")
	h.samePods(before, "0", "1", "2")
	if set.Status.ConfigDigest != "d2" || set.Status.UpdatedReplicas != 3 {
		t.Errorf("status: %+v", set.Status)
	}
}

func TestReloadWhereThatIsEnough(t *testing.T) {
	h := newHarness(t)
	h.start(-1)
	set, before := h.ready()
	h.render(set, func(c *content) { c.Plan = planOf("d2", "s1") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "1 reloads", "0 reloads")
	h.tells(set, "ReloadingProcess", each("ReloadPlan %s: its configuration changed")...)
	h.render(set, func(c *content) { c.Plan = planOf("d3", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 restarts", "1 restarts", "0 restarts")
	h.tells(set, "RestartingProcess", each("PushPlan %s: its configuration changed")...)
	h.node.set(func() { h.node.refuseReload = true })
	h.render(set, func(c *content) { c.Plan = planOf("d4", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "2 restarts", "1 reloads", "1 restarts", "0 reloads", "0 restarts")
	h.tells(set, "RestartingProcess", each("PushPlan %s: a reload cannot take its configuration over")...)
	h.node.set(func() { h.node.refuseReload, h.node.failReloads = false, 1 })
	h.render(set, func(c *content) { c.Plan = planOf("d5", "s2") })
	testkit.WaitForReady(h, env.Client, set)
	h.sameEvents("2 reloads", "2 reloads", "1 reloads", "0 reloads")
	h.samePods(before)
	if set.Status.ConfigDigest != "d5" || set.Status.UpdatedReplicas != 3 {
		t.Errorf("status: %+v", set.Status)
	}
}
