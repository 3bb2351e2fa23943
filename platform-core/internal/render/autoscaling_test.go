// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
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

// Each number that the autoscaler may choose has to be one that the plugin takes.
func TestAutoscalingKeepsToTheStepsOfThePlugin(t *testing.T) {
	odd := schema.Range{Default: 3, Min: 1, Max: 7, Step: 2}
	check := func(from, to int32) *Refusal {
		wanted := &platformv1.ApplicationComponent{
			Autoscaling: &platformv1.Autoscaling{MinReplicas: from, MaxReplicas: to, CPUUtilization: new(int32(80))}}
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
