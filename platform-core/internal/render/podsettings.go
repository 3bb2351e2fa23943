// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// PodSettings is what the operator's settings add to every pod that it makes: those of instances, movers and jobs. They
// are outside the revision of pods: a change replaces none, and pods that are made later have it.
type PodSettings struct {
	// ImagePullSecrets are names of Secrets in the namespace of the pod.
	ImagePullSecrets []string
	// Labels and Annotations of the pods, for example those that keep the sidecars of a service mesh out. What a pod has
	// of that name stays.
	Labels, Annotations map[string]string
	// AgentCPU limits each container beside the one of the middleware (agents, exporters) that has no limit. No limit when
	// zero.
	AgentCPU resource.Quantity
	// JobCPU limits the containers of movers and jobs that have none. No limit when zero.
	JobCPU resource.Quantity
}

// completeInstance completes the template of an instance's pods, whose container of that name has the resources that
// the user gave it.
func (p *PodSettings) completeInstance(t *corev1.PodTemplateSpec, container string) {
	if p == nil {
		return
	}
	// The values of a template have placeholders.
	escaped := func(values map[string]string) map[string]string {
		all := make(map[string]string, len(values))
		for key, value := range values {
			all[key] = placeholder.Escape(value)
		}
		return all
	}
	p.completeMeta(&t.ObjectMeta, escaped)
	p.completeSpec(&t.Spec)
	limitCPU(t.Spec.InitContainers, p.AgentCPU, "")
	limitCPU(t.Spec.Containers, p.AgentCPU, container)
}

// completeJob completes the template of a Job's pod.
func (p *PodSettings) completeJob(t *corev1.PodTemplateSpec) {
	if p == nil {
		return
	}
	p.completeMeta(&t.ObjectMeta, func(values map[string]string) map[string]string { return values })
	p.completeSpec(&t.Spec)
	limitCPU(t.Spec.InitContainers, p.JobCPU, "")
	limitCPU(t.Spec.Containers, p.JobCPU, "")
}

func (p *PodSettings) completeMeta(meta *metav1.ObjectMeta, written func(map[string]string) map[string]string) {
	meta.Labels = withDefaults(meta.Labels, written(p.Labels))
	meta.Annotations = withDefaults(meta.Annotations, written(p.Annotations))
}

func (p *PodSettings) completeSpec(spec *corev1.PodSpec) {
	for _, name := range p.ImagePullSecrets {
		reference := corev1.LocalObjectReference{Name: name}
		if !slices.Contains(spec.ImagePullSecrets, reference) {
			spec.ImagePullSecrets = append(spec.ImagePullSecrets, reference)
		}
	}
}

func withDefaults(values, defaults map[string]string) map[string]string {
	for key, value := range defaults {
		if values == nil {
			values = map[string]string{}
		}
		if _, has := values[key]; !has {
			values[key] = value
		}
	}
	return values
}

// limitCPU gives a limit to the containers that have none, but for the one of that name. A request above it comes down
// to it.
func limitCPU(containers []corev1.Container, limit resource.Quantity, except string) {
	if limit.IsZero() {
		return
	}
	for i := range containers {
		resources := &containers[i].Resources
		if _, has := resources.Limits[corev1.ResourceCPU]; has || containers[i].Name == except {
			continue
		}
		if resources.Limits == nil {
			resources.Limits = corev1.ResourceList{}
		}
		resources.Limits[corev1.ResourceCPU] = limit
		if request := resources.Requests[corev1.ResourceCPU]; request.Cmp(limit) > 0 {
			resources.Requests[corev1.ResourceCPU] = limit
		}
	}
}
