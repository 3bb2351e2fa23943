// SPDX-License-Identifier: Apache-2.0

// Package trim takes out of objects, before they are cached, what nobody reads there. Pods are most of what an operator
// holds, and most of a pod says how its containers are run, which is the kubelet's to read.
package trim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// withoutManagedFields is what every cache takes out.
var withoutManagedFields = cache.TransformStripManagedFields()

// Pod is the transform of caches of pods. Of a container it leaves the name, the image, the resources and whether it is
// a sidecar; of the volumes those that are claimed. What places a pod on a node and its status stay as they are.
// Whoever needs more of a pod reads it live.
func Pod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok { // An object that was missed while the watch was away comes in a wrapper.
		return withoutManagedFields(obj)
	}
	pod.ManagedFields = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i] = container(&containers[i])
		}
	}
	pod.Spec.Volumes = slices.Clip(slices.DeleteFunc(pod.Spec.Volumes,
		func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil }))
	pod.Spec.SecurityContext, pod.Spec.DNSConfig, pod.Spec.HostAliases = nil, nil, nil
	return pod, nil
}

func container(full *corev1.Container) corev1.Container {
	return corev1.Container{
		Name: full.Name, Image: full.Image, Resources: full.Resources, ResizePolicy: full.ResizePolicy,
		RestartPolicy: full.RestartPolicy,
	}
}
