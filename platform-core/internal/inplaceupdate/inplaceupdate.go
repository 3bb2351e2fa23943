// SPDX-License-Identifier: Apache-2.0

// Package inplaceupdate reads from a pod the state of an in-place update of its images. It is pure.
package inplaceupdate

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Running returns the containers that run for the lifetime of the pod, sidecars first.
func Running(spec *corev1.PodSpec) []corev1.Container {
	var containers []corev1.Container
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	return append(containers, spec.Containers...)
}

// RanBefore is the state of a container when its image was last changed in place.
type RanBefore struct {
	// ID of the container that ran then.
	ID string `json:"id"`
	// Image that it was made from.
	Image string `json:"image"`
}

// ImagesBefore returns the containers of a pod before their images were changed in place, by name.
func ImagesBefore(pod *corev1.Pod) map[string]RanBefore {
	before := map[string]RanBefore{}
	// An annotation that cannot be parsed counts as none: then no restart is awaited.
	_ = json.Unmarshal([]byte(pod.Annotations[platformv1.ImagesAnnotation]), &before)
	return before
}

// ContainerID returns the ID of a container as the node reports it; empty if there is none.
func ContainerID(pod *corev1.Pod, container string) string {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return status.ContainerID
		}
	}
	return ""
}

// Restarting says whether a container has yet to restart with its new image. Until then the pod is ready with the old
// image.
func Restarting(pod *corev1.Pod) bool {
	before := ImagesBefore(pod)
	for _, container := range Running(&pod.Spec) {
		was, changed := before[container.Name]
		if changed && was.ID != "" && was.ID == ContainerID(pod, container.Name) && was.Image != container.Image {
			return true
		}
	}
	return false
}
