// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// A set starts with the plugin's default, as far as the bounds allow it.
func TestAutoscaledSetsStartWithinTheirBounds(t *testing.T) {
	allowed := schema.Range{Default: 3, Min: 1, Max: 9}
	for _, test := range []struct{ from, to, want int32 }{{1, 9, 3}, {4, 9, 4}, {1, 2, 2}} {
		spec := &platformv1.ComponentSpec{}
		wanted := &platformv1.ApplicationComponent{
			Autoscaling: &platformv1.Autoscaling{MinReplicas: test.from, MaxReplicas: test.to}}
		if r := fillReplicas(spec, allowed, wanted); r != nil || spec.Replicas != test.want {
			t.Errorf("%d to %d: starts with %d, %v; want %d", test.from, test.to, spec.Replicas, r, test.want)
		}
	}
}

// The autoscaler of a set leaves as many pods as the set says, with which it starts, within the bounds of the
// component.
func TestAutoscaledSetHasAMinimumOfItsOwn(t *testing.T) {
	bounds := &platformv1.Autoscaling{MinReplicas: 2, MaxReplicas: 6,
		AutoscalingTargets: platformv1.AutoscalingTargets{Metrics: []platformv1.AutoscalingMetric{{Name: "web:deferred"}}}}
	for name, test := range map[string]struct {
		scaled *platformv1.Autoscaling
		least  int32
		want   string
	}{
		"more than that of the component": {bounds, 4, ""},
		"as many":                         {bounds, 6, ""},
		"fewer": {bounds, 1, `component "web" has minReplicas 1 in set "next", and autoscaling from 2 to 6 replicas: it ` +
			`must be between these`},
		"too many": {bounds, 7, `component "web" has minReplicas 7 in set "next", and autoscaling from 2 to 6 replicas: it ` +
			`must be between these`},
		"without autoscaling": {nil, 4, `component "web" has minReplicas in set "next" and no autoscaling: set ` +
			`autoscaling, or take minReplicas out`},
	} {
		sets := []platformv1.ComponentSet{{Name: "main"}, {Name: "next", MinReplicas: &test.least}}
		spec := &platformv1.ComponentSpec{Application: "shop", Component: "web", Replicas: 2, Autoscaling: test.scaled,
			Sets: sets}
		r := checkAutoscaledSets(spec, &platformv1.ApplicationComponent{Autoscaling: test.scaled, Sets: sets})
		if got := messageOf(r); got != test.want {
			t.Errorf("%s: got %q; want %q", name, got, test.want)
		}
		if test.want != "" {
			continue
		}
		spec.Sets = nil
		declared := &schema.Component{Container: "web", Sets: &schema.Range{Default: 1, Min: 1, Max: 2}}
		if r := fillSets(&plugin.Bundle{}, spec, declared, schema.Range{Min: 1, Max: 9}, sets); len(r) > 0 {
			t.Fatal(r)
		}
		for n, want := range []int32{2, test.least} {
			c := (&context{spec: spec, declared: declared, bundle: &plugin.Bundle{}}).of(&spec.Sets[n])
			if got := *c.autoscaler().Spec.MinReplicas; got != want || *spec.Sets[n].Replicas != want {
				t.Errorf("%s: set %q begins with %d pods, and its autoscaler leaves %d; want %d", name, spec.Sets[n].Name,
					*spec.Sets[n].Replicas, got, want)
			}
		}
	}
}

// Each number that the autoscaler may choose has to be one that the plugin takes.
func TestAutoscalingKeepsToTheStepsOfThePlugin(t *testing.T) {
	odd := schema.Range{Default: 3, Min: 1, Max: 7, Step: 2}
	check := func(from, to int32) *Refusal {
		wanted := &platformv1.ApplicationComponent{
			Autoscaling: &platformv1.Autoscaling{MinReplicas: from, MaxReplicas: to,
				AutoscalingTargets: platformv1.AutoscalingTargets{CPUUtilization: new(int32(80))}}}
		return checkAutoscaling(&platformv1.ComponentSpec{Component: "db", Topology: "cluster"}, &schema.Component{}, odd,
			wanted)
	}
	if r := check(3, 3); r != nil {
		t.Errorf("3 to 3: %v", r)
	}
	want := `component "db" has autoscaling from 3 to 5 replicas: topology "cluster" takes 1, 3, 5 or 7, and each ` +
		`number between has to be one of these`
	if r := check(3, 5); r == nil || r.Message != want {
		t.Errorf("3 to 5: got %v; want %s", r, want)
	}
}

// An autoscaler goes by metrics that the plugin declares, and that somebody reads.
func TestAutoscalingGoesByMetricsOfThePlugin(t *testing.T) {
	by := func(name, value string) []platformv1.AutoscalingMetric {
		return []platformv1.AutoscalingMetric{{Name: name, AverageValue: resource.MustParse(value)}}
	}
	published := &schema.Monitoring{Metrics: []schema.PodMetric{{Name: "web:processing"}, {Name: "web:deferred"}}}
	for name, test := range map[string]struct {
		declared *schema.Monitoring
		read     bool
		metrics  []platformv1.AutoscalingMetric
		want     string
	}{
		"a metric of the plugin": {published, true, by("web:deferred", "500m"), ""},
		"another metric": {published, true, by("web:waiting", "1"), `component "web" has autoscaling by the metric ` +
			`"web:waiting", which plugin "shop" does not have: it has web:processing, web:deferred`},
		"a plugin without any": {&schema.Monitoring{}, true, by("web:deferred", "1"), `component "web" has autoscaling by ` +
			`the metric "web:deferred", and plugin "shop" declares no metrics to scale by: take it out, and go by ` +
			`cpuUtilization or memoryUtilization`},
		"a component without monitoring": {nil, true, by("web:deferred", "1"), `component "web" has autoscaling by the ` +
			`metric "web:deferred", and plugin "shop" declares no metrics to scale by: take it out, and go by ` +
			`cpuUtilization or memoryUtilization`},
		"nothing": {published, true, by("web:deferred", "0"), `component "web" has autoscaling by the metric ` +
			`"web:deferred" with averageValue 0: it must be greater than 0`},
		"nobody reads it": {published, false, by("web:deferred", "1"), `component "web" has autoscaling by the metric ` +
			`"web:deferred", and nobody reads the metrics of the pods: set monitoring.enabled`},
		"no target": {published, true, nil, `component "web" has autoscaling without a target: set cpuUtilization, ` +
			`memoryUtilization or both, in percent of the requests, or metrics`},
	} {
		a := &platformv1.Autoscaling{MinReplicas: 1, MaxReplicas: 3,
			AutoscalingTargets: platformv1.AutoscalingTargets{Metrics: test.metrics}}
		spec := &platformv1.ComponentSpec{Component: "web", Autoscaling: a, Monitoring: &platformv1.Monitoring{
			Enabled: test.read}}
		spec.Plugin.Name = "shop"
		r := checkAutoscaling(spec, &schema.Component{Monitoring: test.declared}, schema.Range{Min: 1, Max: 3},
			&platformv1.ApplicationComponent{Autoscaling: a})
		if got := messageOf(r); got != test.want {
			t.Errorf("%s: got %q; want %q", name, got, test.want)
		}
	}
}

func messageOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Message
}

// What a container has only a limit of, it requests as much of.
func TestRequested(t *testing.T) {
	some, none := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}
	for name, test := range map[string]struct {
		resources corev1.ResourceRequirements
		want      bool
	}{
		"nothing":        {corev1.ResourceRequirements{}, false},
		"a request":      {corev1.ResourceRequirements{Requests: some}, true},
		"a limit":        {corev1.ResourceRequirements{Limits: some}, true},
		"a request of 0": {corev1.ResourceRequirements{Requests: none, Limits: some}, false},
		"something else only": {corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}, false},
	} {
		if got := requested(test.resources, corev1.ResourceCPU); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
