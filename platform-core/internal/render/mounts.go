// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// mountPrefix is the beginning of the names of volumes that a user gives the mounts of a component.
const mountPrefix = podtemplate.VolumePrefix + "mount-"

// Foreign says whether a volume of a pod is not of that pod: others share it, and it outlives the instance.
func Foreign(v *corev1.Volume) bool {
	return v.Name == ArchiveVolume || strings.HasPrefix(v.Name, mountPrefix)
}

// checkMounts says why the volumes that a user gives a component cannot be mounted.
func checkMounts(spec *platformv1.ComponentSpec, declared *schema.Component) *Refusal {
	for i := range spec.Mounts {
		given := &spec.Mounts[i]
		at, index := declared.MountFor(given.Name)
		if index < 0 {
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has mounts for %q, which its plugin does not declare: %s",
				spec.Component, given.Name, mountsThereAre(declared.Mounts))
		}
		if problem := mountProblem(given, &at); problem != "" {
			return refuse(platformv1.ReasonInvalidSpec, "component %q, mount %q: %s", spec.Component, given.Name,
				problem)
		}
	}
	for _, name := range declared.RequiredMounts() {
		if !slices.Contains(given(spec), name) {
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q needs a volume for the mount %q: add it to mounts",
				spec.Component, name)
		}
	}
	return nil
}

func mountsThereAre(declared []schema.Mount) string {
	if len(declared) == 0 {
		return "take it out"
	}
	var known []string
	for _, m := range declared {
		if m.Each {
			m.Name += "-<folder>"
		}
		known = append(known, m.Name)
	}
	return "there is " + strings.Join(known, ", ")
}

// givenMount is a volume that a user gives, and where it comes.
type givenMount struct {
	volume *platformv1.Mount
	at     schema.Mount
}

// givenMounts are the volumes that a user gives, in the order of the plugin's mounts, and by their names.
func givenMounts(spec *platformv1.ComponentSpec, declared *schema.Component) []givenMount {
	var all []givenMount
	for i := range declared.Mounts {
		first := len(all)
		for j := range spec.Mounts {
			if at, index := declared.MountFor(spec.Mounts[j].Name); index == i {
				all = append(all, givenMount{&spec.Mounts[j], at})
			}
		}
		slices.SortFunc(all[first:], func(a, b givenMount) int { return strings.Compare(a.at.Name, b.at.Name) })
	}
	return all
}

// given are the names of the mounts that have a volume.
func given(spec *platformv1.ComponentSpec) []string {
	var names []string
	for _, m := range spec.Mounts {
		names = append(names, m.Name)
	}
	return names
}

// mountProblem says what is wrong with a volume for a mount; empty for nothing.
func mountProblem(m *platformv1.Mount, declared *schema.Mount) string {
	kinds := 0
	for _, there := range []bool{m.PersistentVolumeClaim != nil, m.NFS != nil, m.CSI != nil, m.ConfigMap != nil,
		m.Secret != nil} {
		if there {
			kinds++
		}
	}
	name := ""
	switch {
	case kinds != 1:
		return "it must have exactly one of persistentVolumeClaim, nfs, csi, configMap and secret"
	case (m.ConfigMap != nil || m.Secret != nil) && !declared.ReadOnly:
		return "a ConfigMap or a Secret cannot be written to, and the component writes there: give it another volume"
	case path.IsAbs(m.SubPath) || strings.Contains(m.SubPath, ".."):
		return "\"" + m.SubPath + "\" is no folder of the volume: subPath is relative, without two dots in a row"
	case m.NFS != nil && (m.NFS.Server == "" || !path.IsAbs(m.NFS.Path)):
		return "nfs needs a server and an absolute path"
	case m.CSI != nil && m.CSI.Driver == "":
		return "csi needs a driver"
	case m.PersistentVolumeClaim != nil:
		name = m.PersistentVolumeClaim.Name
	case m.ConfigMap != nil:
		name = m.ConfigMap.Name
	case m.Secret != nil:
		name = m.Secret.Name
	default:
		return ""
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "\"" + name + "\" is no name of an object"
	}
	return ""
}

// mount adds the volumes that a user gave the component to its pods, in the container that runs the process.
func (c *context) mount(t *corev1.PodTemplateSpec) {
	i := slices.IndexFunc(t.Spec.Containers,
		func(container corev1.Container) bool { return container.Name == c.declared.Container })
	for _, m := range givenMounts(c.spec, c.declared) {
		t.Spec.Volumes = append(t.Spec.Volumes, mountVolume(m.volume, &m.at))
		container := &t.Spec.Containers[i]
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: mountPrefix + m.at.Name, MountPath: m.at.Path, ReadOnly: m.at.ReadOnly, SubPath: m.volume.SubPath,
		})
	}
}

// mountVolume is the volume of a mount.
func mountVolume(m *platformv1.Mount, declared *schema.Mount) corev1.Volume {
	volume := corev1.Volume{Name: mountPrefix + m.Name}
	switch {
	case m.PersistentVolumeClaim != nil:
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: m.PersistentVolumeClaim.Name, ReadOnly: declared.ReadOnly,
		}
	case m.NFS != nil:
		volume.NFS = &corev1.NFSVolumeSource{Server: m.NFS.Server, Path: m.NFS.Path, ReadOnly: declared.ReadOnly}
	case m.CSI != nil:
		volume.CSI = csiVolume(m.CSI, declared)
	case m.ConfigMap != nil:
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: m.ConfigMap.Name}, DefaultMode: new(int32(0o444)),
		}
	case m.Secret != nil:
		volume.Secret = &corev1.SecretVolumeSource{SecretName: m.Secret.Name, DefaultMode: new(int32(secretMode))}
	}
	return volume
}

func csiVolume(m *platformv1.CSIVolume, declared *schema.Mount) *corev1.CSIVolumeSource {
	volume := &corev1.CSIVolumeSource{Driver: m.Driver, VolumeAttributes: maps.Clone(m.VolumeAttributes),
		ReadOnly: new(declared.ReadOnly)}
	if m.FSType != "" {
		volume.FSType = new(m.FSType)
	}
	if m.NodePublishSecretRef != nil {
		volume.NodePublishSecretRef = &corev1.LocalObjectReference{Name: m.NodePublishSecretRef.Name}
	}
	return volume
}

// withMounts gives a job mounts of the component as its pods have them.
func withMounts(spec *corev1.PodSpec, wanted []string, like *corev1.PodSpec, mounts []corev1.VolumeMount) {
	for _, name := range wanted {
		volume := slices.IndexFunc(like.Volumes, func(v corev1.Volume) bool { return v.Name == mountPrefix+name })
		mount := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == mountPrefix+name })
		if volume < 0 || mount < 0 {
			continue
		}
		spec.Volumes = append(spec.Volumes, like.Volumes[volume])
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, mounts[mount])
	}
}
