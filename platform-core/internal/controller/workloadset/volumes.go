// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// defaultClassAnnotation marks the StorageClass that claims without one get.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// eachClaim calls visit for every claim that the wanted pods of the set need,
// with the claim as it is or nil.
func eachClaim(set *platformv1.WorkloadSet, f *facts, visit func(pod string, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim)) {
	for ordinal := range set.Spec.Replicas {
		pod := platformv1.PodNameFor(set.Name, ordinal)
		for _, volume := range set.Spec.Volumes {
			visit(pod, volume, f.claims[platformv1.ClaimNameFor(volume.Name, pod)])
		}
	}
}

// refuseClaim says why a claim cannot be used or cannot become what is asked; nil when it can.
func refuseClaim(set *platformv1.WorkloadSet, f *facts, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) *outcome.Outcome {
	refuse := func(reason, format string, args ...any) *outcome.Outcome {
		o := outcome.Stalled(reason, fmt.Sprintf(format, args...))
		return &o
	}
	if claim == nil {
		return refuseClass(f, volume.StorageClassName)
	}
	if claim.Labels[platformv1.ApplicationUIDLabel] != set.Labels[platformv1.ApplicationUIDLabel] {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s holds the data of an earlier %s and is left alone: delete it if the data is not wanted, or use another name", claim.Name, set.Spec.Application)
	}
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch have.Cmp(volume.Size) {
	case 1:
		return refuse(platformv1.ReasonVolumeShrinkRefused,
			"claim %s has %s and cannot shrink to %s: set the size to at least %s", claim.Name, have.String(), volume.Size.String(), have.String())
	case -1:
		class := classOf(f, claim)
		if class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
			return refuse(platformv1.ReasonVolumeExpansionUnsupported,
				"claim %s cannot grow from %s to %s: its storage class does not allow expansion; set the size back to %s", claim.Name, have.String(), volume.Size.String(), have.String())
		}
	}
	return nil
}

func classOf(f *facts, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	return f.classes[*claim.Spec.StorageClassName]
}

// refuseClass says what is wrong with the StorageClass of a claim to be made.
func refuseClass(f *facts, name *string) *outcome.Outcome {
	if name != nil {
		if _, ok := f.classes[*name]; ok {
			return nil
		}
		o := outcome.Stalled(platformv1.ReasonStorageClassNotFound,
			fmt.Sprintf("there is no StorageClass %q: create it or name another one in storage.storageClassName", *name))
		return &o
	}
	for _, class := range f.classes {
		if class.Annotations[defaultClassAnnotation] == "true" {
			return nil
		}
	}
	o := outcome.Stalled(platformv1.ReasonStorageClassNotFound,
		"the cluster has no default StorageClass: name one in storage.storageClassName")
	return &o
}

// checkVolumes returns the first refusal among all claims. What runs goes on running.
func checkVolumes(set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	var refused *outcome.Outcome
	eachClaim(set, f, func(_ string, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if refused == nil {
			refused = refuseClaim(set, f, volume, claim)
		}
	})
	return refused
}

// ensureClaims makes the missing claims of one pod. A claim has no owner
// reference: it goes only by the deletion policy.
func (c *Controller) ensureClaims(ctx context.Context, set *platformv1.WorkloadSet, f *facts, ordinal int32) error {
	pod := platformv1.PodNameFor(set.Name, ordinal)
	for _, volume := range set.Spec.Volumes {
		name := platformv1.ClaimNameFor(volume.Name, pod)
		if f.claims[name] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: meta(set, name),
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: volume.StorageClassName,
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: volume.Size}},
			},
		}
		if _, err := c.apply.Create(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// expandClaims asks for the wanted size where a claim is smaller and may grow.
func (c *Controller) expandClaims(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	var failed error
	eachClaim(set, f, func(_ string, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if failed != nil || claim == nil || refuseClaim(set, f, volume, claim) != nil {
			return
		}
		have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if have.Cmp(volume.Size) >= 0 {
			return
		}
		before := claim.DeepCopy()
		grown := claim.DeepCopy()
		grown.Spec.Resources.Requests[corev1.ResourceStorage] = volume.Size
		failed = c.client.Patch(ctx, grown, client.MergeFrom(before), client.FieldOwner(owner))
		c.events.Normal(set, "ExpandingVolume", "claim %s grows from %s to %s", claim.Name, have.String(), volume.Size.String())
	})
	return failed
}

// expandingClaims names a claim whose volume has not yet the size that was asked for, and how far it is.
func expandingClaims(set *platformv1.WorkloadSet, f *facts) string {
	text := ""
	eachClaim(set, f, func(_ string, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if text != "" || claim == nil || claim.Status.Phase != corev1.ClaimBound {
			return
		}
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		if capacity.Cmp(volume.Size) < 0 {
			text = fmt.Sprintf("volume of claim %s grows from %s to %s", claim.Name, capacity.String(), volume.Size.String())
		}
	})
	return text
}
