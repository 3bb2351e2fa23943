// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// scaledIn is how long metrics, autoscaler and pods may take over a change of load: measurements of 10 s, looked at
// every 5 s, and 15 s more before a set shrinks in the dev cluster.
const scaledIn = 8 * time.Minute

// TestAutoscaling proves with real load, measured by metrics-server, that a set grows and shrinks, that the Application
// shows it and does not fight it, and that the pods that stay never notice.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "autoscale")
	s.EnsureCommonOperator()
	spec := nginxApplication()
	framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) {
		c.Autoscaling = &platformv1.Autoscaling{MinReplicas: 1, MaxReplicas: 3,
			AutoscalingTargets: platformv1.AutoscalingTargets{CPUUtilization: new(int32(50))}}
	})(&spec)
	n := &nginx{s.CreateApplication("site", spec)}
	n.WaitReady()
	set := platformv1.WorkloadSetNameFor(n.Name, nginxComponent, platformv1.DefaultSet)
	first := n.Pods()[0]
	c := n.startClient(first.Name)
	t.Logf("load to three pods: %s", framework.FormatSeconds(n.scaledTo(set, 3)))
	c.stop()
	t.Logf("no load to one pod: %s", framework.FormatSeconds(n.scaledTo(set, 1)))
	n.WaitReady()
	n.WaitForPods(first.Name)
	if now := n.Pods()[0]; now.UID != first.UID {
		t.Errorf("pod %q was %s and is %s", now.Name, first.UID, now.UID)
	}
	n.Update(framework.WithComponent(nginxComponent, func(c *platformv1.ApplicationComponent) { c.Autoscaling = nil }))
	n.Eventually(framework.SettleTimeout, "the autoscaler is gone",
		func() error { return framework.ErrUnlessNotFound(n.Get(set, &autoscalingv2.HorizontalPodAutoscaler{})) })
	n.Eventually(framework.SettleTimeout, "the number stays, in the Application", func() error {
		if replicas := n.Object().Spec.Components[0].Replicas; replicas == nil || *replicas != 1 {
			return fmt.Errorf("it has %v", replicas)
		}
		return nil
	})
	n.WaitForPods(first.Name)
}

// measured returns what metrics-server knows of each pod. An autoscaler takes one that is not known for a busy one.
func (n *nginx) measured() []string {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "metrics.k8s.io", Version: "v1beta1", Kind: "PodMetricsList"})
	if err := framework.Cluster.Client.List(n.Ctx, list, client.InNamespace(n.Namespace.Name)); err != nil {
		return []string{err.Error()}
	}
	var known []string
	for _, pod := range list.Items {
		known = append(known, fmt.Sprintf("%s at %v: %v", pod.GetName(), pod.Object["timestamp"], pod.Object["containers"]))
	}
	return known
}

// scaledTo waits until the autoscaler has given the set a number of pods, and the Application shows that they are ready
// and says nothing of a number itself.
func (n *nginx) scaledTo(set string, pods int32) time.Duration {
	n.Helper()
	return n.Eventually(scaledIn, fmt.Sprintf("there are %d pods", pods), func() error {
		scaler, app := &autoscalingv2.HorizontalPodAutoscaler{}, n.Object()
		if err := n.Get(set, scaler); err != nil {
			return err
		}
		state := app.Status.Components[0]
		if state.Replicas != pods || state.ReadyReplicas != pods || len(n.Pods()) != int(pods) ||
			scaler.Status.DesiredReplicas != pods {
			return fmt.Errorf("it has %d of %d ready; the autoscaler wants %d: %+v; measured: %v",
				state.ReadyReplicas, state.Replicas, scaler.Status.DesiredReplicas, scaler.Status.Conditions, n.measured())
		}
		if app.Spec.Components[0].Replicas != nil {
			return fmt.Errorf("the Application was given %d replicas", *app.Spec.Components[0].Replicas)
		}
		return nil
	})
}
