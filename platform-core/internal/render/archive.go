// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
)

// ArchiveVolume is the volume of a BackupRepository in pods that keep their archive there. No other volume with a claim
// is in a template.
const ArchiveVolume = podtemplate.VolumePrefix + "archive"

// near is the weight by which movers prefer the node where a pod has the volume of their repository: one that a single
// node can mount they get nowhere else.
const near = 100

// archive is where the component keeps what it archives; nil for nowhere that a BackupRepository names.
func (c *context) archive() *platformv1.ComponentArchive {
	if c.declared.Archive == nil {
		return nil
	}
	return c.spec.Archive
}

// withArchive adds to parameters those that lead to the archive.
func (c *context) withArchive(parameters platformv1.Parameters) platformv1.Parameters {
	place := c.archive()
	if place == nil {
		return parameters
	}
	all := maps.Clone(parameters)
	maps.Copy(all, c.declared.Archive.ParametersFor(place))
	return all
}

// takesOverKeys has a reload take over other keys of the bucket, as far as the process reloads at all.
func (c *context) takesOverKeys(p *plan.Plan) {
	place := c.archive()
	if reload := p.Process.Reload; place != nil && reload != nil && len(reload.Each) == 0 {
		for _, credential := range c.declared.Archive.CredentialsFor(place) {
			if !slices.Contains(reload.Credentials, credential.Name) {
				reload.Credentials = append(slices.Clip(reload.Credentials), credential.Name)
			}
		}
	}
}

// opensArchive says whether a credential is one of the engine's own that opens the archive: whichever Secret its
// BackupRepository names, the pods mount a copy.
func (c *context) opensArchive(name string) bool {
	place := c.archive()
	return place != nil && place.Bucket != nil && slices.Contains(c.declared.Archive.CredentialNames(), name)
}

// mountArchive has the process find the volume of the archive. The group of the movers owns what is on that, and so all
// volumes of the pod: one volume has one group, and each pod that is to write to it says the same. The group that the
// plugin names stays beside, for volumes whose owner the kubelet leaves.
func (c *context) mountArchive(t *corev1.PodTemplateSpec) {
	place := c.archive()
	if place == nil || place.Claim == "" {
		return
	}
	t.Labels[platformv1.ArchiveLabel] = place.Repository
	security := t.Spec.SecurityContext.DeepCopy()
	if own := security.FSGroup; own != nil && !slices.Contains(security.SupplementalGroups, *own) {
		security.SupplementalGroups = append(security.SupplementalGroups, *own)
	}
	security.FSGroup = new(int64(mover.User))
	t.Spec.SecurityContext = security
	t.Spec.Volumes = append(t.Spec.Volumes, claimed(ArchiveVolume, place.Claim))
	i := slices.IndexFunc(t.Spec.Containers,
		func(container corev1.Container) bool { return container.Name == c.declared.Container })
	t.Spec.Containers[i].VolumeMounts = append(t.Spec.Containers[i].VolumeMounts,
		corev1.VolumeMount{Name: ArchiveVolume, MountPath: plan.ArchiveDir})
}

func claimed(name, claim string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// toLogs completes a target with where the logs are, where it names a BackupRepository, and returns the claim of their
// volume.
func (c *context) toLogs(from *platformv1.ComponentRestore) (claim string) {
	place := from.Archive
	if place == nil || from.Target == nil || c.declared.Archive == nil {
		return ""
	}
	target := from.Target.DeepCopy()
	if target.Parameters == nil {
		target.Parameters = map[string]platformv1.ParameterValue{}
	}
	maps.Copy(target.Parameters, c.declared.Archive.ParametersFor(place))
	target.Credentials = append(target.Credentials, c.declared.Archive.CredentialsFor(place)...)
	from.Target = target
	return place.Claim
}

// withLogs mounts the volume that has the logs of a target. The kubelet gives nothing on it to another group, since
// nobody can write to it here.
func withLogs(spec *corev1.PodSpec, restore *platformv1.SetRestore) {
	if restore.Logs == "" {
		return
	}
	// A pod names a claim once: which of two volumes of one the kubelet mounts is not said.
	name := ""
	for _, volume := range spec.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil && claim.ClaimName == restore.Logs {
			name = volume.Name
		}
	}
	if name == "" {
		name = ArchiveVolume
		volume := claimed(name, restore.Logs)
		volume.PersistentVolumeClaim.ReadOnly = true
		spec.Volumes = append(spec.Volumes, volume)
		preferNear(spec, restore.From.Archive.Repository)
	}
	container := &spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts,
		corev1.VolumeMount{Name: name, MountPath: plan.ArchiveDir, ReadOnly: true})
}

// preferNear has a mover run where pods have the volume of a repository mounted all the time, if there are any.
func preferNear(spec *corev1.PodSpec, repository string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.PodAffinity == nil {
		spec.Affinity.PodAffinity = &corev1.PodAffinity{}
	}
	terms := &spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*terms = append(*terms, corev1.WeightedPodAffinityTerm{Weight: near, PodAffinityTerm: corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{platformv1.ArchiveLabel: repository}},
	}})
}
