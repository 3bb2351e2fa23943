// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// shareSize is what volume and claim say of an NFS share, whose server knows better. Nobody goes by it.
const shareSize = "1Ti"

// Share returns the volume of a BackupRepository on NFS, and the claim that it is bound to. A pod that mounts NFS by
// itself would not be restricted.
func Share(r *platformv1.BackupRepository, owner metav1.OwnerReference) (*corev1.PersistentVolume,
	*corev1.PersistentVolumeClaim) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(shareSize)}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	labels := map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy}
	name, claim := platformv1.ShareNameFor(r), platformv1.ShareClaimNameFor(r)
	return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					NFS: &corev1.NFSVolumeSource{Server: r.Spec.NFS.Server, Path: r.Spec.NFS.Path}},
				ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: r.Namespace,
					Name: claim},
			},
		}, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: claim, Labels: labels,
				OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: modes, VolumeName: name, StorageClassName: new(""),
				Resources: corev1.VolumeResourceRequirements{Requests: size},
			},
		}
}
