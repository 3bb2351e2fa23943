// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExtendedResources(t *testing.T) {
	list := func(name corev1.ResourceName, amount string) corev1.ResourceList {
		if amount == "" {
			return nil
		}
		return corev1.ResourceList{name: resource.MustParse(amount)}
	}
	for name, tc := range map[string]struct {
		resource       corev1.ResourceName
		request, limit string
		refused        string
	}{
		"a GPU":                 {resource: "nvidia.com/gpu", limit: "1"},
		"a part of one by name": {resource: "nvidia.com/mig-1g.5gb", limit: "2"},
		"requested as well":     {resource: "amd.com/gpu", request: "2", limit: "2"},
		"written otherwise":     {resource: "amd.com/gpu", request: "2000m", limit: "2"},
		"huge pages":            {resource: "hugepages-2Mi", limit: "64Mi"},
		"half of one": {resource: "nvidia.com/gpu", limit: "500m",
			refused: "has a limit of 500m of nvidia.com/gpu: it must be a whole number"},
		"none": {resource: "nvidia.com/gpu", limit: "0",
			refused: "has a limit of 0 of nvidia.com/gpu: it must be greater than 0"},
		"requested alone": {resource: "nvidia.com/gpu", request: "1",
			refused: "requests 1 of nvidia.com/gpu and has no limit: set the limit"},
		"less requested": {resource: "nvidia.com/gpu", request: "1", limit: "2",
			refused: "the two must be the same, since containers do not share it"},
		"more requested": {resource: "nvidia.com/gpu", request: "3", limit: "2",
			refused: "the limit must be at least the request"},
		"fewer huge pages": {resource: "hugepages-2Mi", request: "2Mi", limit: "64Mi",
			refused: "the two must be the same"},
		"no domain": {resource: "gpu", limit: "1", refused: `has the resource "gpu", which no container has`},
		"storage": {resource: "storage", request: "1Gi",
			refused: `has the resource "storage", which no container has`},
		"the domain is Kubernetes": {resource: "kubernetes.io/gpu", limit: "1",
			refused: `has the resource "kubernetes.io/gpu"`},
		"no name": {resource: "nvidia.com/", limit: "1", refused: `has the resource "nvidia.com/"`},
		"of a quota": {resource: "requests.nvidia.com/gpu", limit: "1",
			refused: `has the resource "requests.nvidia.com/gpu"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(corev1.ResourceRequirements{Requests: list(tc.resource, tc.request),
				Limits: list(tc.resource, tc.limit)})
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("the error is %v; want %q", err, tc.refused)
			}
		})
	}
}

func TestNamesOfExtendedResources(t *testing.T) {
	one := resource.MustParse("1")
	got := Extended(corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": one, "amd.com/gpu": one,
		corev1.ResourceCPU: one, "hugepages-2Mi": one}})
	if want := []string{"amd.com/gpu", "nvidia.com/gpu"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
