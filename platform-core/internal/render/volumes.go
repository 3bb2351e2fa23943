// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/resources"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// fillAdditional fills in the volumes that a user adds to each pod.
func fillAdditional(spec *platformv1.ComponentSpec, declared *schema.Component, wanted []platformv1.Storage) *Refusal {
	allowed := declared.Additional()
	switch {
	case len(wanted) == 0:
		return nil
	case allowed == nil:
		return refuse(platformv1.ReasonInvalidSpec,
			"component %q has additionalVolumes, and its plugin keeps data on one volume: take them out, and set "+
				"storage.size for more room", spec.Component)
	case len(wanted) > allowed.Max:
		return refuse(platformv1.ReasonInvalidSpec, "component %q has %d additionalVolumes: it takes at most %d",
			spec.Component, len(wanted), allowed.Max)
	}
	for i := range wanted {
		size := wanted[i].Size
		switch {
		case size.Sign() <= 0:
			return refuse(platformv1.ReasonInvalidSpec,
				"component %q has additionalVolumes[%d] of size %s: it must be greater than 0", spec.Component, i, size.String())
		case resources.TooFewBytes(size):
			return refuse(platformv1.ReasonInvalidSpec, "component %q has additionalVolumes[%d] of size %s: %s",
				spec.Component, i, size.String(), resources.InBytes(size))
		}
		spec.AdditionalVolumes = append(spec.AdditionalVolumes, *wanted[i].DeepCopy())
	}
	return nil
}

// ownVolumes are those that each pod of the set has, in the order of the plugin, with those that a user added and that
// of access logs at the end.
func (c *setContext) ownVolumes() []platformv1.SetVolume {
	var volumes []platformv1.SetVolume
	for i, v := range c.declared.Volumes {
		storage := platformv1.Storage{Size: v.Size.DeepCopy()}
		if c.set.storage != nil {
			storage.StorageClassName = c.set.storage.StorageClassName
			// The size that a user gives is that of the first volume; the others have the plugin's.
			if i == 0 {
				storage.Size = c.set.storage.Size.DeepCopy()
			}
		}
		volumes = append(volumes, platformv1.SetVolume{Name: v.Name, Storage: storage})
	}
	for i := range c.spec.AdditionalVolumes {
		storage := c.spec.AdditionalVolumes[i].DeepCopy()
		if storage.StorageClassName == nil && c.set.storage != nil {
			storage.StorageClassName = c.set.storage.StorageClassName
		}
		volumes = append(volumes,
			platformv1.SetVolume{Name: c.declared.Volumes[0].AdditionalName(i + 1), Storage: *storage})
	}
	return append(volumes, c.logsVolume()...)
}

// additionalPaths are where volumes are mounted that a user added.
func (c *context) additionalPaths() []string {
	var paths []string
	for i := range c.spec.AdditionalVolumes {
		paths = append(paths, c.declared.Additional().PathOf(i+1))
	}
	return paths
}

// mountAdditional mounts the volumes that a user added, in the container that runs the process.
func (c *context) mountAdditional(t *corev1.PodTemplateSpec) {
	i := slices.IndexFunc(t.Spec.Containers,
		func(container corev1.Container) bool { return container.Name == c.declared.Container })
	container := &t.Spec.Containers[i]
	for number, path := range c.additionalPaths() {
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: c.declared.Volumes[0].AdditionalName(number + 1), MountPath: path})
	}
}
