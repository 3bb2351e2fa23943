// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// lose cuts the node of pod 0 off: its kubelet says nothing any more, and Kubernetes says of the node that it is not
// reached and of the pod what it says of those on such a node. containers is what the kubelet last said of the pod's
// containers.
func (h *harness) lose(containers corev1.ConditionStatus) corev1.Pod {
	h.Helper()
	pod := h.pods()["0"]
	h.node.set(func() { h.node.cut[string(pod.UID)] = true })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
	}}}
	if err := env.Client.Create(h.Context(), node); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
			h.Error(err)
		}
	})
	lost := pod.DeepCopy()
	lost.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: containers},
	}
	if err := env.Client.Status().Patch(h.Context(), lost, client.MergeFrom(&pod)); err != nil {
		h.Fatal(err)
	}
	return pod
}

// evict deletes a pod as Kubernetes does from a node that is not reached: it stays until its kubelet says that it has
// ended.
func (h *harness) evict(pod corev1.Pod, options ...client.DeleteOption) {
	h.Helper()
	if err := env.Client.Delete(h.Context(), &pod, options...); err != nil {
		h.Fatal(err)
	}
}

// another waits until there is a pod 0 that is not this one.
func (h *harness) another(set *platformv1.WorkloadSet, than corev1.Pod) {
	h.Helper()
	testkit.WaitFor(h, env.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: than.Name}},
		"is another", func() error {
			if now := h.pods()["0"]; now.UID == than.UID {
				return fmt.Errorf("it is the same, to be deleted at %v", now.DeletionTimestamp)
			}
			return nil
		})
	testkit.WaitForReady(h, env.Client, set)
}

func alike(set *platformv1.WorkloadSet) { set.Spec.Volumes, set.Spec.Roles = nil, nil }

// A pod with a volume or a role may still write on a node that nobody reaches: only its node's return, or an
// administrator's word that the machine is off, brings another one.
func TestLostPodWithDataIsNotReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set := h.create(1)
	testkit.WaitForReady(t, env.Client, set)
	pod := h.lose(corev1.ConditionTrue)
	h.says(set, platformv1.ReasonNodeUnreachable,
		"it is not replaced until the node is back; if the machine is off for good, say so: kubectl taint node "+
			h.namespace+" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	h.evict(pod)
	h.touch(set)
	h.says(set, platformv1.ReasonNodeUnreachable, "it is not replaced until the node is back")
	if now := h.pods()["0"]; now.UID != pod.UID || now.DeletionTimestamp == nil {
		t.Fatalf("the pod is %s and was %s, to be deleted at %v", now.UID, pod.UID, now.DeletionTimestamp)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}
	if err := testkit.Edit(t.Context(), env.Client, node,
		func() { node.Spec.Taints = append(node.Spec.Taints, outOfService) }); err != nil {
		t.Fatal(err)
	}
	h.touch(set)
	h.says(set, platformv1.ReasonNodeUnreachable, "which is out of service")
	// What the garbage collector of pods does then.
	h.evict(pod, client.GracePeriodSeconds(0))
	h.another(set, pod)
	if n := h.node.uids("Pod " + pod.Name); n != 2 {
		t.Errorf("there were %d pods of that name, want 2", n)
	}
}

// A node that was deleted comes not back and cannot be tainted: Kubernetes removes its pods, with or without data, and
// another one is made when it has.
func TestPodOfADeletedNodeIsReplaced(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string][]func(*platformv1.WorkloadSet){"with data": nil, "without data": {alike}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.start(-1)
			set := h.create(1, changes...)
			testkit.WaitForReady(t, env.Client, set)
			pod := h.lose(corev1.ConditionTrue)
			h.says(set, platformv1.ReasonNodeUnreachable, "which is unreachable")
			err := env.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
			if err != nil {
				t.Fatal(err)
			}
			h.touch(set)
			h.says(set, platformv1.ReasonNodeUnreachable, "pod "+pod.Name+" was on node "+h.namespace+
				", which the cluster has no more: Kubernetes removes the pod within two minutes, and another one is made")
			if now := h.pods()["0"]; now.UID != pod.UID || now.DeletionTimestamp != nil {
				t.Fatalf("the pod is %s and was %s, to be deleted at %v", now.UID, pod.UID, now.DeletionTimestamp)
			}
			// What the garbage collector of pods does then.
			h.evict(pod, client.GracePeriodSeconds(0))
			h.another(set, pod)
			if n := h.node.uids("Pod " + pod.Name); n != 2 {
				t.Errorf("there were %d pods of that name, want 2", n)
			}
		})
	}
}

// A pod that keeps nothing and is not counted moves as soon as Kubernetes has evicted it.
func TestLostPodWithoutDataMoves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		containers corev1.ConditionStatus
		grace      int64
	}{
		"it was ready when its node was lost":     {corev1.ConditionTrue, 30},
		"it was not ready when its node was lost": {corev1.ConditionFalse, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.start(-1)
			set := h.create(1, alike)
			testkit.WaitForReady(t, env.Client, set)
			pod := h.lose(test.containers)
			if test.containers == corev1.ConditionTrue {
				h.says(set, platformv1.ReasonNodeUnreachable, "it moves when Kubernetes evicts it from there")
			}
			h.evict(pod, client.GracePeriodSeconds(test.grace))
			h.another(set, pod)
			h.tells(set, "ReplacingPod", "ForgetPod "+pod.Name)
			if n := h.node.uids("Pod " + pod.Name); n != 2 {
				t.Errorf("there were %d pods of that name, want 2", n)
			}
		})
	}
}

// A pod that takes long to end on a node that answers is waited for, whatever it keeps.
func TestPodThatTakesLongToEndIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.start(-1)
	set := h.create(1, alike)
	testkit.WaitForReady(t, env.Client, set)
	pod := h.lose(corev1.ConditionFalse)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}
	if err := env.Client.Patch(t.Context(), node,
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))); err != nil {
		t.Fatal(err)
	}
	h.evict(pod, client.GracePeriodSeconds(1))
	h.clock.Store(int64(pods.EndedRecheck) * 5)
	h.touch(set)
	h.says(set, platformv1.ReasonPodsNotReady, "to end")
	if now := h.pods()["0"]; now.UID != pod.UID {
		t.Errorf("the pod is %s and was %s", now.UID, pod.UID)
	}
	h.evict(pod, client.GracePeriodSeconds(0))
	h.another(set, pod)
}
