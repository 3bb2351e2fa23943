// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

// tellZone gives the containers with agents a file with the zone of the node, where the plan asks for it. The kubelet
// fills it from the annotation that the pod gets once it is on a node.
func (c *context) tellZone(t *corev1.PodTemplateSpec) {
	if !c.bundle.UsesPodZone(c.spec.Component) {
		return
	}
	agents := []string{c.declared.Container, podtemplate.StatusContainer, podtemplate.OpsContainer,
		podtemplate.MetricsContainer}
	for i := range t.Spec.Containers {
		if container := &t.Spec.Containers[i]; slices.Contains(agents, container.Name) {
			container.VolumeMounts = append(container.VolumeMounts,
				corev1.VolumeMount{Name: volumePod, MountPath: plan.PodDir, ReadOnly: true})
		}
	}
	t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: volumePod, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{
			DefaultMode: new(int32(0o444)),
			Items: []corev1.DownwardAPIVolumeFile{{
				Path: plan.ZoneFile,
				FieldRef: &corev1.ObjectFieldSelector{
					APIVersion: "v1", FieldPath: "metadata.annotations['" + platformv1.ZoneAnnotation + "']",
				},
			}},
		},
	}})
}

// AsksForZone says whether a pod has to be told the zone of its node.
func AsksForZone(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volumePod })
}
