// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// A GPU is for the container of the process alone.
func TestExtendedResourcesOfPods(t *testing.T) {
	with := func(limits corev1.ResourceList) *platformv1.WorkloadSet {
		set, _ := render(t, redis(t), settings, application(component(func(c *platformv1.ApplicationComponent) {
			c.Resources = corev1.ResourceRequirements{Limits: limits}
		})))
		return set
	}
	set := with(corev1.ResourceList{"memory": resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("2")})
	for _, container := range pod(t, set, 0).Spec.Containers {
		gpus, limited := container.Resources.Limits["nvidia.com/gpu"]
		if container.Name == "redis" && gpus.Value() != 2 || container.Name != "redis" && limited {
			t.Errorf("container %s has %+v", container.Name, container.Resources)
		}
	}
}

func TestExtendedResourcesByThePlugin(t *testing.T) {
	bundle := redis(t, "      requests:\n        cpu: 50m",
		"      limits: {example.com/fpga: 1}\n      requests:\n        cpu: 50m")
	set, _ := render(t, bundle, settings, application(nil))
	if fpgas := pod(t, set, 0).Spec.Containers[0].Resources.Limits["example.com/fpga"]; fpgas.Value() != 1 {
		t.Errorf("the pod has %s; want 1", fpgas.String())
	}
}

func TestResourcesThatNoContainerHas(t *testing.T) {
	limits := func(name corev1.ResourceName, amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse(amount)}}
	}
	for says, change := range map[string]func(*platformv1.ApplicationComponent){
		`component "redis" has a limit of 500m of nvidia.com/gpu: it must be a whole number`: func(
			c *platformv1.ApplicationComponent) {
			c.Resources = limits("nvidia.com/gpu", "0.5")
		},
		`has the resource "gpu", which no container has`: func(c *platformv1.ApplicationComponent) {
			c.Sets = []platformv1.ComponentSet{{Name: "main", Resources: limits("gpu", "1")}}
		},
	} {
		_, refusal := Components(redis(t), application(component(change)))
		if refusal == nil || refusal.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(refusal.Message, says) {
			t.Errorf("got %v; want %q", refusal, says)
		}
	}
}
