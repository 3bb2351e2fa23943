// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkAutoscaling refuses an autoscaler that could ask for what the plugin does not allow, or that has nothing to go
// by.
func checkAutoscaling(spec *platformv1.ComponentSpec, declared *schema.Component, allowed schema.Range,
	wanted *platformv1.ApplicationComponent) *Refusal {
	a := wanted.Autoscaling
	if a == nil {
		return nil
	}
	wrong := func(format string, args ...any) *Refusal {
		return refuse(platformv1.ReasonInvalidSpec, "component %q has autoscaling %s", spec.Component,
			fmt.Sprintf(format, args...))
	}
	switch {
	case !declared.Scales():
		return wrong("and cannot be scaled once it is made: take autoscaling out and set replicas")
	case declared.Membership != nil:
		return wrong("and its pods are members of one cluster, which leave it before they go: " +
			"take autoscaling out and set replicas")
	case wanted.Replicas != nil:
		return wrong("and replicas: the autoscaler decides how many pods there are, take one of the two out")
	case a.MinReplicas > a.MaxReplicas:
		return wrong("with minReplicas %d and maxReplicas %d: the first must not be larger", a.MinReplicas, a.MaxReplicas)
	case a.CPUUtilization == nil && a.MemoryUtilization == nil && len(a.Metrics) == 0:
		return wrong("without a target: set cpuUtilization, memoryUtilization or both, in percent of the requests, " +
			"or metrics")
	}
	if why := wrongMetric(a, spec, declared); why != "" {
		return wrong("%s", why)
	}
	for n := a.MinReplicas; n <= a.MaxReplicas; n++ {
		if !allowed.Allows(n) {
			return wrong("from %d to %d replicas: topology %q takes %s, and each number between has to be one of these",
				a.MinReplicas, a.MaxReplicas, spec.Topology, allowed)
		}
	}
	return nil
}

// wrongMetric says why the autoscaler cannot go by a metric that it is to go by; empty when it can go by all.
func wrongMetric(a *platformv1.Autoscaling, spec *platformv1.ComponentSpec, declared *schema.Component) string {
	known := declared.Monitoring.MetricNames()
	for _, metric := range a.Metrics {
		switch {
		case len(known) == 0:
			return fmt.Sprintf("by the metric %q, and plugin %q declares no metrics to scale by: take it out, and go by "+
				"cpuUtilization or memoryUtilization", metric.Name, spec.Plugin.Name)
		case !slices.Contains(known, metric.Name):
			return fmt.Sprintf("by the metric %q, which plugin %q does not have: it has %s", metric.Name, spec.Plugin.Name,
				strings.Join(known, ", "))
		case metric.AverageValue.Sign() <= 0:
			return fmt.Sprintf("by the metric %q with averageValue %s: it must be greater than 0", metric.Name,
				metric.AverageValue.String())
		case !spec.Monitoring.On():
			return fmt.Sprintf("by the metric %q, and nobody reads the metrics of the pods: set monitoring.enabled", metric.Name)
		}
	}
	return ""
}

// checkAutoscaledSets refuses sets that decide their number of pods themselves, or request none of what the autoscaler
// goes by.
func checkAutoscaledSets(spec *platformv1.ComponentSpec, wanted *platformv1.ApplicationComponent) *Refusal {
	a := wanted.Autoscaling
	for _, set := range wanted.Sets {
		switch least := set.MinReplicas; {
		case a != nil && set.Replicas != nil:
			return refuse(platformv1.ReasonInvalidSpec, "component %q has autoscaling and replicas in set %q: the autoscaler "+
				"decides how many pods there are, take replicas out", spec.Component, set.Name)
		case a == nil && least != nil:
			return refuse(platformv1.ReasonInvalidSpec, "component %q has minReplicas in set %q and no autoscaling: set "+
				"autoscaling, or take minReplicas out", spec.Component, set.Name)
		case least != nil && (*least < a.MinReplicas || *least > a.MaxReplicas):
			return refuse(platformv1.ReasonInvalidSpec, "component %q has minReplicas %d in set %q, and autoscaling from %d to "+
				"%d replicas: it must be between these", spec.Component, *least, set.Name, a.MinReplicas, a.MaxReplicas)
		}
	}
	if a == nil {
		return nil
	}
	for i := range spec.Sets {
		requests := resolve(spec, &spec.Sets[i]).resources
		for _, by := range []struct {
			name   corev1.ResourceName
			target *int32
		}{{corev1.ResourceCPU, a.CPUUtilization}, {corev1.ResourceMemory, a.MemoryUtilization}} {
			if by.target != nil && !requested(requests, by.name) {
				return refuse(platformv1.ReasonInvalidSpec,
					"component %q has autoscaling by %s, and its set %q requests none: set resources.requests.%s",
					spec.Component, by.name, spec.Sets[i].Name, by.name)
			}
		}
	}
	return nil
}

// requested says whether a container requests a resource; one that has only a limit requests as much.
func requested(r corev1.ResourceRequirements, name corev1.ResourceName) bool {
	quantity, found := r.Requests[name]
	if !found {
		quantity = r.Limits[name]
	}
	return quantity.Sign() > 0
}

// autoscaler is the HorizontalPodAutoscaler of the set; nil when the user decides the number of pods. Of CPU and memory
// it goes by the middleware's container alone: what the agents use says nothing of the load.
func (c *setContext) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	a := c.spec.Autoscaling
	if a == nil {
		return nil
	}
	var metrics []autoscalingv2.MetricSpec
	add := func(name corev1.ResourceName, target *int32) {
		if target == nil {
			return
		}
		metrics = append(metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ContainerResourceMetricSourceType,
			ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
				Name: name, Container: c.declared.Container,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(*target)},
			},
		})
	}
	add(corev1.ResourceCPU, a.CPUUtilization)
	add(corev1.ResourceMemory, a.MemoryUtilization)
	for _, metric := range a.Metrics {
		metrics = append(metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.PodsMetricSourceType,
			Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: metric.Name},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
					AverageValue: new(metric.AverageValue.DeepCopy())},
			},
		})
	}
	labels := c.labels()
	labels[platformv1.SetLabel] = c.set.name
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: c.owner.Namespace, Labels: labels},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: platformv1.GroupVersion.String(), Kind: "WorkloadSet", Name: c.name,
			},
			MinReplicas: new(cmp.Or(c.set.minReplicas, a.MinReplicas)),
			MaxReplicas: a.MaxReplicas,
			Metrics:     metrics,
		},
	}
}

// setScaling says who may change the number of pods of the set; none is anyone.
func (c *setContext) setScaling() platformv1.SetScaling {
	switch {
	case c.spec.Autoscaling != nil:
		return platformv1.SetScalingAuto
	case !c.declared.Scales():
		return platformv1.SetScalingFixed
	}
	return ""
}
