// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// permissions lets the pods of the component read what its plugin says, in their own namespace; nil for nothing. Each
// set has a ServiceAccount of its own, under its own name.
func (c *context) permissions(sets []WorkloadSetOutput) (*rbacv1.Role, *rbacv1.RoleBinding) {
	if len(c.declared.Permissions) == 0 {
		return nil, nil
	}
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name:      platformv1.ComponentNameFor(c.owner.Application, c.spec.Component),
			Namespace: c.owner.Namespace, Labels: c.labels(),
		}
	}
	role := &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: meta(),
	}
	for _, p := range c.declared.Permissions {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{corev1.GroupName}, Resources: slices.Clone(p.Resources), Verbs: slices.Clone(p.Verbs),
		})
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	for _, set := range sets {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Name: set.Name, Namespace: c.owner.Namespace,
		})
	}
	return role, binding
}

// withToken gives the process the token of its pod where it has permissions. It is a part of the pod's revision: a pod
// that was made without is replaced.
func (c *context) withToken(t *corev1.PodTemplateSpec) {
	if len(c.declared.Permissions) == 0 {
		return
	}
	for i := range t.Spec.Containers {
		if container := &t.Spec.Containers[i]; container.Name == c.declared.Container {
			container.VolumeMounts = append(container.VolumeMounts,
				corev1.VolumeMount{Name: volumeToken, MountPath: tokenDir, ReadOnly: true})
		}
	}
}
