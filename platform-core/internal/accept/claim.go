// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Claim is the one that a pod of a set has for a volume, of the generation that the set asks for. It has no owner
// reference: it goes only by the deletion policy.
func Claim(set *platformv1.WorkloadSet, ordinal int32, volume platformv1.SetVolume) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Spec.ClaimNameFor(volume.Name, platformv1.PodNameFor(set.Name, ordinal)),
			Labels:      render.LabelsOf(set),
			Annotations: map[string]string{platformv1.DataAnnotation: DataOf(&set.Spec)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: volume.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: volume.Size}},
		},
	}
	claim.Labels[platformv1.OrdinalLabel] = strconv.Itoa(int(ordinal))
	if generation := set.Spec.Generation(); generation != "" {
		claim.Labels[platformv1.GenerationLabel] = generation
	}
	return claim
}
