// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// domainAnnotation carries the DNS domain of the pods from the rendering of the set to that of
// its pods, when the template uses pod.fqdn.
const domainAnnotation = "platform.zeroinfra.github.com/pod-domain"

// Pod renders the pod with this ordinal of a set. It needs no plugin. The owner reference is left to the caller.
func Pod(ws *platformv1.WorkloadSet, ordinal int32) (*corev1.Pod, error) {
	name := platformv1.PodNameFor(ws.Name, ordinal)
	fail := func(err error) (*corev1.Pod, error) {
		return nil, fmt.Errorf("cannot render pod %q: %w", name, err)
	}
	tree, err := decodeTree(ws.Spec.Template.Raw)
	if err != nil {
		return fail(err)
	}
	tree, err = placeholder.ExpandPod(tree, placeholder.Pod{
		Name: name, Ordinal: int64(ordinal), FQDN: name + "." + domainOf(tree),
	})
	if err != nil {
		return fail(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return fail(err)
	}
	var template corev1.PodTemplateSpec
	if err := json.Unmarshal(data, &template); err != nil {
		return fail(err)
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: ws.Namespace, Labels: template.Labels, Annotations: template.Annotations,
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[platformv1.OrdinalLabel] = strconv.Itoa(int(ordinal))
	pod.Labels[platformv1.RevisionLabel] = ws.Spec.Revision
	pod.Spec.Hostname = name
	for _, v := range ws.Spec.Volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: v.Name,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: ws.Spec.ClaimNameFor(v.Name, name),
			}},
		})
	}
	return pod, nil
}

// OnVolumesOf says whether a pod of a set has the volumes that it would be made with now.
func OnVolumesOf(set *platformv1.WorkloadSet, pod *corev1.Pod) bool {
	for _, declared := range set.Spec.Volumes {
		i := slices.IndexFunc(pod.Spec.Volumes,
			func(v corev1.Volume) bool { return v.Name == declared.Name && v.PersistentVolumeClaim != nil })
		if i >= 0 && pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName != set.Spec.ClaimNameFor(declared.Name, pod.Name) {
			return false
		}
	}
	return true
}

// LabelsOf are the labels of what belongs to a set.
func LabelsOf(set *platformv1.WorkloadSet) map[string]string {
	labels := map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy}
	for _, key := range []string{
		platformv1.InstanceLabel, platformv1.NameLabel, platformv1.DomainLabel, platformv1.ApplicationLabel,
		platformv1.ApplicationUIDLabel, platformv1.ComponentLabel, platformv1.SetLabel,
	} {
		if value, ok := set.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// domainOf is the DNS domain of the pods that a template carries; empty when it carries none.
func domainOf(template any) string {
	for _, field := range []string{"metadata", "annotations", domainAnnotation} {
		fields, _ := template.(map[string]any)
		template = fields[field]
	}
	domain, _ := template.(string)
	return domain
}
