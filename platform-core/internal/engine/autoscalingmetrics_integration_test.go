// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// goBy has an autoscaler go by a metric of the pods beside the CPU, and somebody read it.
func goBy(name, value string) func(*platformv1.ApplicationComponent) {
	return func(c *platformv1.ApplicationComponent) {
		c.Autoscaling.Metrics = []platformv1.AutoscalingMetric{{Name: name, AverageValue: resource.MustParse(value)}}
		c.Monitoring = &platformv1.Monitoring{Enabled: true}
	}
}

// saysAutoscaled waits until objects have the condition of their autoscalers with a reason; empty for none.
func saysAutoscaled(t *testing.T, reason string, objects ...interface {
	client.Object
	platformv1.Conditioned
}) {
	t.Helper()
	for _, obj := range objects {
		testkit.WaitFor(t, env.Client, obj, "says "+reason, func() error {
			c := conditions.Get(obj, platformv1.AutoscaledCondition)
			if c == nil && reason != "" || c != nil && c.Reason != reason {
				return fmt.Errorf("it says %+v", c)
			}
			return nil
		})
	}
}

// looks plays the controller of HorizontalPodAutoscalers.
func looks(t *testing.T, scaler *autoscalingv2.HorizontalPodAutoscaler, status corev1.ConditionStatus, reason string) {
	t.Helper()
	before := scaler.DeepCopy()
	scaler.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive,
		Status: status, Reason: reason, Message: "that is how it is", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Patch(t.Context(), scaler, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestAutoscalingByAMetricOfThePods proves that the autoscaler goes by metrics that the plugin declares, that what it
// says of them is passed on and holds nothing up, and that it is wanted by nobody when the pods are stopped.
func TestAutoscalingByAMetricOfThePods(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = autoscaled(goBy("web:requests_deferred", "1500m"))
	create(t, app)
	autoscaledBy(t, app, 2)
	scalers := &autoscalingv2.HorizontalPodAutoscalerList{}
	wait(t, app, scalers, "a-web-main")
	scaler := &scalers.Items[0]
	if len(scaler.Spec.Metrics) != 2 || scaler.Spec.Metrics[1].Pods == nil {
		t.Fatalf("it goes by %+v", scaler.Spec.Metrics)
	}
	m := scaler.Spec.Metrics[1]
	if m.Type != autoscalingv2.PodsMetricSourceType || m.Pods.Metric.Name != "web:requests_deferred" ||
		m.Pods.Metric.Selector != nil || m.Pods.Target.Type != autoscalingv2.AverageValueMetricType ||
		m.Pods.Target.AverageValue.String() != "1500m" {
		t.Errorf("it goes by %+v", m)
	}
	web := component(t, namespace, "a-web")
	saysAutoscaled(t, "", app, web)
	looks(t, scaler, corev1.ConditionFalse, "FailedGetPodsMetric")
	saysAutoscaled(t, platformv1.ReasonMetricsUnavailable, app, web)
	testkit.WaitForReady(t, env.Client, app)
	looks(t, scaler, corev1.ConditionTrue, "ValidMetricFound")
	saysAutoscaled(t, platformv1.ReasonAutoscalerActive, app, web)

	// Without the metric the autoscaler goes by the CPU alone.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling.Metrics = nil })
	goesBy(t, scaler, "cpu of main at 70%")
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling = nil })
	saysAutoscaled(t, "", app, web)
}

// TestAutoscalerIsKeptAsItIsWanted proves that an edit of an autoscaler, which has no generation, is taken back.
func TestAutoscalerIsKeptAsItIsWanted(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = autoscaled()
	create(t, app)
	autoscaledBy(t, app, 2)
	scalers := &autoscalingv2.HorizontalPodAutoscalerList{}
	wait(t, app, scalers, "a-web-main")
	scaler := &scalers.Items[0]
	before := scaler.DeepCopy()
	scaler.Spec.MaxReplicas = 50
	if err := env.Client.Patch(t.Context(), scaler, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, scaler, "has its bounds again", func() error {
		if scaler.Spec.MaxReplicas != 4 {
			return fmt.Errorf("at most %d", scaler.Spec.MaxReplicas)
		}
		return nil
	})
}
