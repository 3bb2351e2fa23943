// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// scalerOf is an autoscaler with conditions.
func scalerOf(name string,
	has ...autoscalingv2.HorizontalPodAutoscalerCondition) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: has}}
}

// looked is a condition of an autoscaler: True without a reason.
func looked(of autoscalingv2.HorizontalPodAutoscalerConditionType, reason,
	message string) autoscalingv2.HorizontalPodAutoscalerCondition {
	c := autoscalingv2.HorizontalPodAutoscalerCondition{Type: of, Status: corev1.ConditionFalse, Reason: reason,
		Message: message}
	if reason == "" {
		c.Status, c.Reason = corev1.ConditionTrue, "ValidMetricFound"
	}
	return c
}

func TestAutoscaledIsWhatTheAutoscalersSay(t *testing.T) {
	able, active := looked(autoscalingv2.AbleToScale, "", ""), looked(autoscalingv2.ScalingActive, "", "from cpu")
	blind := looked(autoscalingv2.ScalingActive, "FailedGetPodsMetric", "no custom metrics API is registered")
	for name, test := range map[string]struct {
		scalers []*autoscalingv2.HorizontalPodAutoscaler
		stopped bool
		want    metav1.Condition
	}{
		"none":           {},
		"not looked yet": {scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a", able)}},
		"active": {scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a", able, active)},
			want: metav1.Condition{Status: metav1.ConditionTrue, Reason: "AutoscalerActive",
				Message: "the metrics that decide the number of pods are there"}},
		"one of two has no metric": {
			scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a", able, active), scalerOf("b", able, blind)},
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "MetricsUnavailable",
				Message: `HorizontalPodAutoscaler "b" leaves the number of pods as it is: no custom metrics API is registered; ` +
					`such metrics come from the API custom.metrics.k8s.io: install a Prometheus that reads the pods, and an ` +
					`adapter such as prometheus-adapter that serves the metric under this name`}},
		"no CPU": {scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a",
			looked(autoscalingv2.ScalingActive, "FailedGetContainerResourceMetric", "no metrics"))},
			want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "MetricsUnavailable",
				Message: `HorizontalPodAutoscaler "a" leaves the number of pods as it is: no metrics; such metrics come from the ` +
					`API metrics.k8s.io: install metrics-server, or wait where pods have just begun`}},
		"no scale": {scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a",
			looked(autoscalingv2.AbleToScale, "FailedGetScale", "forbidden"))}, want: metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "AutoscalerInactive",
			Message: `HorizontalPodAutoscaler "a" does not scale: forbidden`}},
		"stopped": {scalers: []*autoscalingv2.HorizontalPodAutoscaler{scalerOf("a", blind)}, stopped: true},
	} {
		component := &platformv1.Component{Spec: platformv1.ComponentSpec{Autoscaling: &platformv1.Autoscaling{},
			Running: new(!test.stopped)}}
		conditions.Set(component, metav1.Condition{Type: platformv1.AutoscaledCondition, Status: metav1.ConditionTrue,
			Reason: "Before"})
		reportAutoscaled(component, &facts{autoscalers: test.scalers})
		got := conditions.Get(component, platformv1.AutoscaledCondition)
		if got == nil {
			got = &metav1.Condition{}
		}
		if got.Status != test.want.Status || got.Reason != test.want.Reason || got.Message != test.want.Message {
			t.Errorf("%s: got %+v; want %+v", name, got, test.want)
		}
	}
}

// What an autoscaler measures wakes nobody; whether it can, and what it is asked for, does.
func TestAutoscalerChanged(t *testing.T) {
	active := looked(autoscalingv2.ScalingActive, "", "from the metric a")
	base := scalerOf("a", active)
	for name, test := range map[string]struct {
		change func(*autoscalingv2.HorizontalPodAutoscaler)
		want   bool
	}{
		"another measurement": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.DesiredReplicas, h.Status.Conditions[0].Message = 3, "from the metric b"
		}, false},
		"no metrics": {func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Status.Conditions[0] = looked(autoscalingv2.ScalingActive, "FailedGetPodsMetric", "none")
		}, true},
		"other bounds": {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 9 }, true},
	} {
		now := base.DeepCopy()
		test.change(now)
		if got := autoscalerChanged.Update(event.UpdateEvent{ObjectOld: base, ObjectNew: now}); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
