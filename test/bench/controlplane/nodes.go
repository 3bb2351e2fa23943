// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// PodsPerNode is how many pods a simulated node takes; the addresses of a node are enough for many times as many.
	PodsPerNode = 500
	// PodNetwork is what all addresses of pods are in.
	PodNetwork = "10.0.0.0/8"
	// zones that the nodes are spread over.
	zones = 3
	// mostNodes is how many networks of pods there are.
	mostNodes = 200
)

// makeNodes makes the simulated nodes and waits until KWOK says that they are ready.
func (p *Plane) makeNodes(ctx context.Context, count int) error {
	if count > mostNodes {
		return fmt.Errorf("cannot simulate %d nodes: %d is the most", count, mostNodes)
	}
	for i := range count {
		if err := p.Kit.Client.Create(ctx, node(i)); err != nil {
			return fmt.Errorf("cannot make a node: %w", err)
		}
	}
	ready := 0
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		if err := p.Failure(); err != nil {
			return false, err
		}
		var list corev1.NodeList
		if err := p.Kit.Client.List(ctx, &list); err != nil {
			return false, err
		}
		ready = 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		return ready == count, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d nodes are ready after %v: %w", ready, count, patience, err)
	}
	return nil
}

func node(i int) *corev1.Node {
	name := fmt.Sprintf("sim-%03d", i)
	network := fmt.Sprintf("10.%d.0.0/16", i+1)
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   *resource.NewQuantity(PodsPerNode, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:     name,
			corev1.LabelTopologyZone: fmt.Sprintf("z%d", i%zones),
			corev1.LabelOSStable:     "linux",
			corev1.LabelArchStable:   "amd64",
		}},
		Spec:   corev1.NodeSpec{PodCIDR: network, PodCIDRs: []string{network}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

// isReady says whether the node runs pods: it is ready, and nothing keeps pods away.
func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return len(node.Spec.Taints) == 0
		}
	}
	return false
}
