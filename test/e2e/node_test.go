// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// lostIn is how long Kubernetes and the engine may take over a node that is gone: 10 s until it counts as unreachable in the
// dev cluster, and up to 20 s until the garbage collector of pods looks at one that is out of service.
const lostIn = 5 * time.Minute

// leavesSoon has pods evicted from a node that nobody reaches after 3 s instead of 5 minutes.
func leavesSoon(name string) func(*platformv1.ApplicationSpec) {
	return component(name, func(c *platformv1.ApplicationComponent) {
		c.Scheduling = &platformv1.Scheduling{Tolerations: []corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(3)),
		}}}
	})
}

// TestNodeLost proves that a node that is cut off costs a pod without data nothing but the time to move, that a pod with data is left to its
// node until that is back or said to be off for good, and that a kubelet that is restarted touches no pod. It runs alone:
// nobody else's pods should be on that node.
func TestNodeLost(t *testing.T) {
	s := newSpace(t, "node")
	s.commonOperatorServes()
	web, locks := nginxApplication(), etcdApplication()
	for _, change := range []func(*platformv1.ApplicationSpec){replicas(nginxComponent, 3), leavesSoon(nginxComponent)} {
		change(&web)
	}
	leavesSoon(etcdComponent)(&locks)
	n, e := &nginx{s.apply("site", web)}, &etcd{application: s.apply("locks", locks), scheme: "http"}
	n.ready()
	e.ready()
	leader, followers := e.led()
	node := s.node(leader)
	s.vacate(node, operatorNamespace, "kube-system")
	t.Run("cut off", func(t *testing.T) { lostAndFound(n.in(t), e.in(t), node, leader, followers) })
	t.Run("off for good", func(t *testing.T) { outOfService(e.in(t), node) })
	t.Run("kubelet restarted", func(t *testing.T) { kubeletRestarted(n.in(t), e.in(t), node) })
}

// node is where a pod of the test is.
func (s *space) node(pod string) string {
	s.Helper()
	found := &corev1.Pod{}
	s.mustGet(pod, found)
	return found.Spec.NodeName
}

// vacate moves what the test itself stands on from a node: the pods of namespaces such as those of the operators and of the cluster's own services.
func (s *space) vacate(name string, namespaces ...string) {
	s.Helper()
	cordon := func(on string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":`+on+`}}`))
		if err := world.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch); err != nil {
			s.Fatal(err)
		}
	}
	cordon("true")
	defer cordon("false")
	for _, namespace := range namespaces {
		s.eventually(settleIn, fmt.Sprintf("the pods of namespace %q are ready on other nodes than %q", namespace, name), func() error {
			var pods corev1.PodList
			if err := world.client.List(s.ctx, &pods, client.InNamespace(namespace)); err != nil {
				return err
			}
			for _, pod := range pods.Items {
				if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "DaemonSet" {
					continue
				}
				if pod.Spec.NodeName == name && pod.DeletionTimestamp == nil {
					if err := s.evict(&pod); err != nil {
						return err
					}
				}
				if pod.Status.Phase != corev1.PodSucceeded && (pod.Spec.NodeName == name || !isReady(&pod)) {
					return fmt.Errorf("pod %q on %q is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
				}
			}
			return nil
		})
	}
	if err := operatorServes(s.ctx); err != nil {
		s.Fatal(err)
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// lostAndFound cuts the node of the leader off and plugs it in again, while writes go on.
func lostAndFound(n *nginx, e *etcd, node, leader string, followers []string) {
	n.Helper()
	moving := slices.DeleteFunc(n.pods(), func(p corev1.Pod) bool { return p.Spec.NodeName != node })
	if len(moving) != 1 {
		n.Fatalf("%d pods of nginx are on node %q, want one", len(moving), node)
	}
	old := &corev1.Pod{}
	e.mustGet(leader, old)
	w := e.startWriter(followers[0])
	devcluster(n.T, "node", "cut", node)
	took := n.eventually(lostIn, "the pod without data is ready on another node", func() error {
		pod := &corev1.Pod{}
		if err := n.get(moving[0].Name, pod); err != nil {
			return err
		}
		if pod.UID == moving[0].UID || pod.Spec.NodeName == node || !isReady(pod) {
			return fmt.Errorf("pod %s is on %q, the one that is lost is %s", pod.UID, pod.Spec.NodeName, moving[0].UID)
		}
		return nil
	})
	n.Logf("node cut off to another pod ready: %s", seconds(took))
	n.ready()
	n.havePods(podNames(platformv1.WorkloadSetNameFor(n.name, nginxComponent, platformv1.DefaultSet), 0, 1, 2)...)
	e.eventually(lostIn, "the Application says what to do about the pod with data", func() error {
		text := describe(e.object().Status.Conditions)
		if !strings.Contains(text, "kubectl taint node "+node+" node.kubernetes.io/out-of-service") || !strings.Contains(text, leader) {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	e.eventually(lostIn, "another member has the label of the leader", func() error {
		if leaders := e.byRole()["leader"]; len(leaders) != 1 || leaders[0] == leader {
			return fmt.Errorf("it is on %v", leaders)
		}
		return nil
	})
	now := &corev1.Pod{}
	e.mustGet(leader, now)
	if now.UID != old.UID || now.DeletionTimestamp == nil {
		e.Errorf("the evicted pod was %s and is %s, to be deleted at %v: it must not be replaced", old.UID, now.UID, now.DeletionTimestamp)
	}
	w.acknowledgedAgain()
	e.Logf("it says: %s", e.object().Status.Components[0].Message)

	devcluster(n.T, "node", "heal", node)
	e.eventually(lostIn, "the member is there again, another pod on its volume", func() error { return e.renewed(old) })
	e.ready()
	e.led()
	// The pod that was lost goes before another one of its name is made there, and nothing of it stays.
	n.ended(moving[0], nginxComponent)
	e.ended(*old, etcdComponent)
	n.havePods(podNames(platformv1.WorkloadSetNameFor(n.name, nginxComponent, platformv1.DefaultSet), 0, 1, 2)...)
	w.stop(lostIn)
}

// renewed says why a pod has not been replaced by one that is ready.
func (a *application) renewed(old *corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := a.get(old.Name, pod); err != nil {
		return err
	}
	if pod.UID == old.UID || !isReady(pod) {
		return fmt.Errorf("pod %q is %s, to be deleted at %v; it was %s", pod.Name, pod.UID, pod.DeletionTimestamp, old.UID)
	}
	return nil
}

// ended waits until no process is left of a container that ran on a node.
func (a *application) ended(pod corev1.Pod, container string) {
	a.Helper()
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	a.eventually(settleIn, fmt.Sprintf("container %q of the lost pod %q ends", container, pod.Name), func() error {
		if found := devcluster(a.T, "exec", "--", "sh", "-c", findFirst, "find", id); found != "" {
			return fmt.Errorf("it is process %s", found)
		}
		return nil
	})
}

// outOfService switches the node off, says that it stays so, and switches it on all the same.
func outOfService(e *etcd, node string) {
	e.Helper()
	i := slices.IndexFunc(e.pods(), func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		e.Fatalf("no member is on node %q", node)
	}
	old := e.pods()[i]
	e.mustCtl(old.Name, e.service(), "put", "kept", "yes")
	devcluster(e.T, "node", "stop", node)
	e.eventually(lostIn, "the Application says that the node is not reached", func() error {
		if text := describe(e.object().Status.Conditions); !strings.Contains(text, "which nobody reaches") {
			return fmt.Errorf("it says: %s", text)
		}
		return nil
	})
	taint := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	e.taint(node, func(taints []corev1.Taint) []corev1.Taint { return append(taints, taint) })
	took := e.eventually(lostIn, "there is another pod", func() error {
		pod := &corev1.Pod{}
		if err := e.get(old.Name, pod); err != nil {
			return err
		}
		if pod.UID == old.UID {
			return errors.New("it is the old one still")
		}
		return nil
	})
	e.Logf("node said to be out of service to another pod: %s", seconds(took))
	devcluster(e.T, "node", "start", node)
	e.taint(node, func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	})
	e.ready()
	e.led()
	if out := e.mustCtl(old.Name, "http://127.0.0.1:2379", "get", "kept", "--print-value-only"); out != "yes" {
		e.Errorf("what was put is %q, want yes", out)
	}
}

// taint changes the taints of a node, which others change as well.
func (s *space) taint(name string, change func([]corev1.Taint) []corev1.Taint) {
	s.Helper()
	s.eventually(settleIn, fmt.Sprintf("the taints of node %q are changed", name), func() error {
		node := &corev1.Node{}
		if err := world.client.Get(s.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		return world.client.Update(s.ctx, node)
	})
}

// kubeletRestarted restarts the kubelet under pods that run.
func kubeletRestarted(n *nginx, e *etcd, node string) {
	n.Helper()
	n.ready()
	type footprint struct {
		uid      string
		restarts string
	}
	look := func() map[string]footprint {
		found := map[string]footprint{}
		for _, pod := range append(n.pods(), e.pods()...) {
			found[pod.Name] = footprint{string(pod.UID), fmt.Sprint(restarts(&pod))}
		}
		return found
	}
	before, masters := look(), n.masters()
	devcluster(n.T, "node", "restart-kubelet", node)
	n.ready()
	e.ready()
	n.throughout(quietFor, "the pods are left alone", func() error {
		if now := look(); !maps.Equal(now, before) {
			return fmt.Errorf("they were %v and are %v", before, now)
		}
		return nil
	})
	if now := n.masters(); !maps.Equal(now, masters) {
		n.Errorf("the master processes were %v and are %v", masters, now)
	}
}
