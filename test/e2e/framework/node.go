// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeOf is where a pod of the test is.
func (s *Namespace) NodeOf(pod string) string {
	s.Helper()
	found := &corev1.Pod{}
	s.MustGet(pod, found)
	return found.Spec.NodeName
}

// VacateNode moves what the test itself stands on from a node: the pods of namespaces such as those of the operators
// and of the cluster's own services.
func (s *Namespace) VacateNode(name string, namespaces ...string) {
	s.Helper()
	cordon := func(on string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":`+on+`}}`))
		if err := Cluster.Client.Patch(s.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch); err != nil {
			s.Fatal(err)
		}
	}
	cordon("true")
	defer cordon("false")
	for _, namespace := range namespaces {
		s.Eventually(SettleTimeout, fmt.Sprintf("the pods of namespace %q are ready on other nodes than %q", namespace, name),
			func() error {
				var pods corev1.PodList
				if err := Cluster.Client.List(s.Ctx, &pods, client.InNamespace(namespace)); err != nil {
					return err
				}
				for _, pod := range pods.Items {
					if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "DaemonSet" {
						continue
					}
					if pod.Spec.NodeName == name && pod.DeletionTimestamp == nil {
						if err := s.Evict(&pod); err != nil {
							return err
						}
					}
					if pod.Status.Phase != corev1.PodSucceeded && (pod.Spec.NodeName == name || !PodIsReady(&pod)) {
						return fmt.Errorf("pod %q on %q is %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase)
					}
				}
				return nil
			})
	}
	s.waitForLeaders()
}

// waitForLeaders waits until each operator that is installed has a leader.
func (s *Namespace) waitForLeaders() {
	s.Helper()
	s.Eventually(LeaderTimeout, "each operator has a leader", func() error {
		var pods corev1.PodList
		if err := Cluster.Client.List(s.Ctx, &pods, client.InNamespace(OperatorNamespace)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			operator := pod.Labels["app.kubernetes.io/name"]
			if _, err := LeaderOf(s.Ctx, operator); err != nil {
				return fmt.Errorf("%s: %w", operator, err)
			}
		}
		return nil
	})
}

// Cordon keeps new pods from all nodes until undo is called, at the latest at the end of the test. No other test may
// run beside it.
func (s *Namespace) Cordon() (undo func()) {
	s.Helper()
	nodes := &corev1.NodeList{}
	if err := Cluster.Client.List(s.Ctx, nodes); err != nil {
		s.Fatal(err)
	}
	cordon := func(on string) {
		for i := range nodes.Items {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":`+on+`}}`))
			if err := Cluster.Client.Patch(context.Background(), &nodes.Items[i], patch); err != nil {
				s.Errorf("cannot cordon node %s: %v", nodes.Items[i].Name, err)
			}
		}
	}
	undo = sync.OnceFunc(func() { cordon("false") })
	s.Cleanup(undo)
	cordon("true")
	return undo
}

// PodIsReady says whether the condition Ready of a pod is true.
func PodIsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
