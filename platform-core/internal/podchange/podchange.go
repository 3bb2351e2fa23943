// SPDX-License-Identifier: Apache-2.0

// Package podchange reads off a pod what it is in the midst of since it was changed in place. It is pure.
package podchange

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Running returns the containers of a pod that run as long as it does, sidecars first.
func Running(spec *corev1.PodSpec) []corev1.Container {
	var containers []corev1.Container
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	return append(containers, spec.Containers...)
}

// RanBefore is a container as it was when its image was last changed in place.
type RanBefore struct {
	// ID of the container that ran then.
	ID string `json:"id"`
	// Image that it was made from.
	Image string `json:"image"`
}

// ImagesBefore reads what a pod's containers were before their images changed in place.
func ImagesBefore(pod *corev1.Pod) map[string]RanBefore {
	before := map[string]RanBefore{}
	// What cannot be read counts as none: then nothing is waited for.
	_ = json.Unmarshal([]byte(pod.Annotations[platformv1.ImagesAnnotation]), &before)
	return before
}

// ContainerID is the id of the container of this name as the node reports it; empty where there is none.
func ContainerID(pod *corev1.Pod, container string) string {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == container {
			return status.ContainerID
		}
	}
	return ""
}

// Restarting says whether a container that was given another image has yet to restart: until then its pod is ready with
// the old one.
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
