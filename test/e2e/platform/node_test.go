// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// lostIn is how long Kubernetes and the engine may take over a node that is gone: 10 s until it counts as unreachable
// in the dev cluster, and up to 20 s until the garbage collector of pods looks at one that is out of service.
const lostIn = 5 * time.Minute

// leavesSoon has pods evicted from a node that nobody reaches after 3 s instead of 5 minutes.
func leavesSoon(name string) func(*platformv1.ApplicationSpec) {
	return framework.WithComponent(name, func(c *platformv1.ApplicationComponent) {
		c.Scheduling = &platformv1.Scheduling{Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(3)),
		}}}
	})
}

// TestNodeLost proves that a node that is cut off costs a pod without data nothing but the time to move, that a pod
// with data is left to its node until that is back or said to be off for good, and that a kubelet that is restarted
// touches no pod. It runs alone: nobody else's pods should be on that node.
func TestNodeLost(t *testing.T) {
	s := framework.NewNamespace(t, "node")
	s.EnsureCommonOperator()
	web, locks := nginxApplication(), etcdApplication()
	for _, change := range []func(*platformv1.ApplicationSpec){framework.WithComponentReplicas(nginxComponent, 3),
		leavesSoon(nginxComponent)} {
		change(&web)
	}
	leavesSoon(etcdComponent)(&locks)
	n, e := &nginx{s.CreateApplication("site", web)},
		&etcd{Application: s.CreateApplication("locks", locks), scheme: "http"}
	n.WaitReady()
	e.WaitReady()
	leader, followers := e.led()
	node := s.NodeOf(leader)
	s.VacateNode(node, framework.OperatorNamespace, "kube-system")
	t.Run("cut off", func(t *testing.T) { lostAndFound(n.in(t), e.in(t), node, leader, followers) })
	t.Run("off for good", func(t *testing.T) { outOfService(e.in(t), node) })
	t.Run("kubelet restarted", func(t *testing.T) { kubeletRestarted(n.in(t), e.in(t), node) })
}

// lostAndFound cuts the node of the leader off and plugs it in again, while writes go on.
func lostAndFound(n *nginx, e *etcd, node, leader string, followers []string) {
	n.Helper()
	moving := slices.DeleteFunc(n.Pods(), func(p corev1.Pod) bool { return p.Spec.NodeName != node })
	if len(moving) != 1 {
		n.Fatalf("%d pods of nginx are on node %q, want one", len(moving), node)
	}
	old := &corev1.Pod{}
	e.MustGet(leader, old)
	w := e.startWriter(followers[0])
	framework.DevCluster(n.T, "node", "cut", node)
	took := n.Eventually(lostIn, "the pod without data is ready on another node", func() error {
		pod := &corev1.Pod{}
		if err := n.Get(moving[0].Name, pod); err != nil {
			return err
		}
		if pod.UID == moving[0].UID || pod.Spec.NodeName == node || !framework.PodIsReady(pod) {
			return fmt.Errorf("pod %s is on %q, the one that is lost is %s", pod.UID, pod.Spec.NodeName, moving[0].UID)
		}
		return nil
	})
	n.Logf("node cut off to another pod ready: %s", framework.FormatSeconds(took))
	n.WaitReady()
	n.WaitForPods(podNames(platformv1.WorkloadSetNameFor(n.Name, nginxComponent, platformv1.DefaultSet), 0, 1, 2)...)
	e.Eventually(lostIn, "the Application says what to do about the pod with data", func() error {
		text := framework.Describe(e.Object().Status.Conditions)
		if !strings.Contains(text, "kubectl taint node "+node+" node.kubernetes.io/out-of-service") ||
			!strings.Contains(text, leader) {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	e.Eventually(lostIn, "another member has the label of the leader", func() error {
		if leaders := e.byRole()["leader"]; len(leaders) != 1 || leaders[0] == leader {
			return fmt.Errorf("it is on %v", leaders)
		}
		return nil
	})
	now := &corev1.Pod{}
	e.MustGet(leader, now)
	if now.UID != old.UID || now.DeletionTimestamp == nil {
		e.Errorf("the evicted pod was %s and is %s, to be deleted at %v: it must not be replaced", old.UID, now.UID,
			now.DeletionTimestamp)
	}
	w.acknowledgedAgain()
	e.Logf("it says: %s", e.Object().Status.Components[0].Message)

	framework.DevCluster(n.T, "node", "heal", node)
	e.Eventually(lostIn, "the member is there again, another pod on its volume",
		func() error { return renewed(e.Application, old) })
	e.WaitReady()
	e.led()
	// The pod that was lost goes before another one of its name is made there, and nothing of it stays.
	ended(n.Application, moving[0], nginxComponent)
	ended(e.Application, *old, etcdComponent)
	n.WaitForPods(podNames(platformv1.WorkloadSetNameFor(n.Name, nginxComponent, platformv1.DefaultSet), 0, 1, 2)...)
	w.stop(lostIn)
}

// renewed says why a pod has not been replaced by one that is ready.
func renewed(a *framework.Application, old *corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := a.Get(old.Name, pod); err != nil {
		return err
	}
	if pod.UID == old.UID || !framework.PodIsReady(pod) {
		return fmt.Errorf("pod %q is %s, to be deleted at %v; it was %s", pod.Name, pod.UID, pod.DeletionTimestamp, old.UID)
	}
	return nil
}

// ended waits until no process is left of a container that ran on a node.
func ended(a *framework.Application, pod corev1.Pod, container string) {
	a.Helper()
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	a.Eventually(framework.SettleTimeout, fmt.Sprintf("container %q of the lost pod %q ends", container, pod.Name),
		func() error {
			if found := framework.DevCluster(a.T, "exec", "--", "sh", "-c", framework.FindFirstProcessScript, "find",
				id); found != "" {
				return fmt.Errorf("it is process %s", found)
			}
			return nil
		})
}

// outOfService switches the node off, says that it stays so, and switches it on all the same.
func outOfService(e *etcd, node string) {
	e.Helper()
	i := slices.IndexFunc(e.Pods(), func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		e.Fatalf("no member is on node %q", node)
	}
	old := e.Pods()[i]
	e.mustCtl(old.Name, e.service(), "put", "kept", "yes")
	framework.DevCluster(e.T, "node", "stop", node)
	e.Eventually(lostIn, "the Application says that the node is not reached", func() error {
		if text := framework.Describe(e.Object().Status.Conditions); !strings.Contains(text, "which is unreachable") {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	taintNode(e.Application.Namespace, node, func(taints []corev1.Taint) []corev1.Taint { return append(taints, taint) })
	took := e.Eventually(lostIn, "there is another pod", func() error {
		pod := &corev1.Pod{}
		if err := e.Get(old.Name, pod); err != nil {
			return err
		}
		if pod.UID == old.UID {
			return errors.New("it is the old one still")
		}
		return nil
	})
	e.Logf("node said to be out of service to another pod: %s", framework.FormatSeconds(took))
	framework.DevCluster(e.T, "node", "start", node)
	taintNode(e.Application.Namespace, node, func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	})
	e.WaitReady()
	e.led()
	if out := e.mustCtl(old.Name, "http://127.0.0.1:2379", "get", "kept", "--print-value-only"); out != "yes" {
		e.Errorf("what was put is %q, want yes", out)
	}
}

// taintNode changes the taints of a node, which others change as well.
func taintNode(s *framework.Namespace, name string, change func([]corev1.Taint) []corev1.Taint) {
	s.Helper()
	s.Eventually(framework.SettleTimeout, fmt.Sprintf("the taints of node %q are changed", name), func() error {
		node := &corev1.Node{}
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		return framework.Cluster.Client.Update(s.Ctx, node)
	})
}

// kubeletRestarted restarts the kubelet under pods that run.
func kubeletRestarted(n *nginx, e *etcd, node string) {
	n.Helper()
	n.WaitReady()
	type footprint struct {
		uid      string
		restarts string
	}
	look := func() map[string]footprint {
		found := map[string]footprint{}
		for _, pod := range append(n.Pods(), e.Pods()...) {
			found[pod.Name] = footprint{string(pod.UID), fmt.Sprint(framework.Restarts(&pod))}
		}
		return found
	}
	before, masters := look(), n.masters()
	framework.DevCluster(n.T, "node", "restart-kubelet", node)
	n.WaitReady()
	e.WaitReady()
	n.Throughout(framework.QuietPeriod, "the pods are left alone", func() error {
		if now := look(); !maps.Equal(now, before) {
			return fmt.Errorf("they were %v and are %v", before, now)
		}
		return nil
	})
	if now := n.masters(); !maps.Equal(now, masters) {
		n.Errorf("the master processes were %v and are %v", masters, now)
	}
}
