// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// podsMetricFailure is the reason that Kubernetes gives where a metric of the type Pods has no value. Those of all
// metrics begin and end alike.
const (
	podsMetricFailure   = "FailedGetPodsMetric"
	metricFailurePrefix = "FailedGet"
	metricFailureSuffix = "Metric"
)

// autoscalerChanged leaves out what Kubernetes writes into the status of autoscalers with each measurement. An
// autoscaler has no generation.
var autoscalerChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, wasOne := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler)
	now, isOne := e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
	return !wasOne || !isOne || !equality.Semantic.DeepEqual(before.Spec, now.Spec) ||
		!equality.Semantic.DeepEqual(activityOf(before), activityOf(now))
}}

// reportAutoscaled says whether the autoscalers do their work. It holds nothing up: the pods that there are serve.
func reportAutoscaled(component *platformv1.Component, f *facts) {
	var all *metav1.Condition
	if component.Spec.Autoscaling != nil && component.Spec.IsRunning() {
		for _, autoscaler := range f.autoscalers {
			if one := activityOf(autoscaler); one != nil && (all == nil || all.Status == metav1.ConditionTrue) {
				all = one
			}
		}
	}
	if all == nil {
		conditions.Remove(component, platformv1.AutoscaledCondition)
		return
	}
	conditions.Set(component, *all)
}

// activityOf is the condition that comes of those of an autoscaler; nil while it has not looked yet.
func activityOf(autoscaler *autoscalingv2.HorizontalPodAutoscaler) *metav1.Condition {
	c := &metav1.Condition{Type: platformv1.AutoscaledCondition, Status: metav1.ConditionFalse}
	looked := false
	for _, its := range autoscaler.Status.Conditions {
		switch its.Type {
		case autoscalingv2.AbleToScale, autoscalingv2.ScalingActive:
		default:
			continue
		}
		looked = looked || its.Type == autoscalingv2.ScalingActive
		if its.Status != corev1.ConditionFalse {
			continue
		}
		c.Reason = platformv1.ReasonAutoscalerInactive
		c.Message = fmt.Sprintf("HorizontalPodAutoscaler %q does not scale: %s", autoscaler.Name, its.Message)
		if strings.HasPrefix(its.Reason, metricFailurePrefix) && strings.HasSuffix(its.Reason, metricFailureSuffix) {
			c.Reason = platformv1.ReasonMetricsUnavailable
			c.Message = fmt.Sprintf("HorizontalPodAutoscaler %q leaves the number of pods as it is: %s; %s", autoscaler.Name,
				its.Message, metricsAdvice(its.Reason))
		}
		return c
	}
	if !looked {
		return nil
	}
	c.Status, c.Reason = metav1.ConditionTrue, platformv1.ReasonAutoscalerActive
	c.Message = "the metrics that decide the number of pods are there"
	return c
}

// metricsAdvice says what serves the metrics that are missing.
func metricsAdvice(reason string) string {
	if reason == podsMetricFailure {
		return "such metrics come from the API custom.metrics.k8s.io: install a Prometheus that reads the pods, and an " +
			"adapter such as prometheus-adapter that serves the metric under this name"
	}
	return "such metrics come from the API metrics.k8s.io: install metrics-server, or wait where pods have just begun"
}
