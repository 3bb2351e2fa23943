// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// eachClaim calls visit for every claim that the wanted pods of the set need,
// with the claim as it is or nil.
func eachClaim(set *platformv1.WorkloadSet, f *facts, visit func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim)) {
	for _, ordinal := range set.Spec.Ordinals() {
		pod := platformv1.PodNameFor(set.Name, ordinal)
		for _, volume := range set.Spec.Volumes {
			visit(ordinal, volume, f.claims[set.Spec.ClaimNameFor(volume.Name, pod)])
		}
	}
}

// ours says whether a claim belongs to the Application of the set, and not to an earlier one.
func ours(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Labels[platformv1.ApplicationUIDLabel] == set.Labels[platformv1.ApplicationUIDLabel]
}

// sizeIsRefused says whether a refusal is about another size only: a pod can start on the claim as it is.
func sizeIsRefused(refused *outcome.Outcome) bool {
	return refused.Reason() == platformv1.ReasonVolumeShrinkRefused || refused.Reason() == platformv1.ReasonVolumeExpansionUnsupported
}

// refuseClaim says why a claim cannot be used or cannot become what is asked; nil when it can.
func refuseClaim(set *platformv1.WorkloadSet, f *facts, ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) *outcome.Outcome {
	refuse := func(reason, format string, args ...any) *outcome.Outcome {
		return new(outcome.Stalled(reason, fmt.Sprintf(format, args...)))
	}
	if claim == nil {
		return refuseClass(f, volume.StorageClassName)
	}
	if !ours(set, claim) {
		if r := accept.Adoption(&set.Spec, ordinal, claim); r != nil {
			return new(outcome.Stalled(r.Reason, r.Message))
		}
	}
	if r := accept.Shrink(claim, volume.Size); r != nil {
		return new(outcome.Stalled(r.Reason, r.Message))
	}
	if have := claim.Spec.Resources.Requests[corev1.ResourceStorage]; have.Cmp(volume.Size) < 0 {
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

// wantedClass is the StorageClass that a claim gets that asks for this one; nil when there is none.
func wantedClass(f *facts, name *string) *storagev1.StorageClass {
	if name != nil {
		return f.classes[*name]
	}
	for _, class := range f.classes {
		if class.Annotations[accept.DefaultClassAnnotation] == "true" {
			return class
		}
	}
	return nil
}

// refuseClass says what is wrong with the StorageClass of a claim to be made.
func refuseClass(f *facts, name *string) *outcome.Outcome {
	if wantedClass(f, name) != nil {
		return nil
	}
	if name != nil {
		o := outcome.Stalled(platformv1.ReasonStorageClassNotFound,
			fmt.Sprintf("there is no StorageClass %q: create it or name another one in storage.storageClassName", *name))
		return &o
	}
	o := outcome.Stalled(platformv1.ReasonStorageClassNotFound,
		"the cluster has no default StorageClass: name one in storage.storageClassName")
	return &o
}

// checkVolumes returns the first refusal among all claims. What runs goes on running.
func checkVolumes(set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	var refused *outcome.Outcome
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if refused == nil {
			refused = refuseClaim(set, f, ordinal, volume, claim)
		}
	})
	return refused
}

// refuseFirstStart says why no pod at all is made yet: before the set has a volume of its own, all that it needs must be
// usable. Half of its members with old data and half without would be worse than none.
func refuseFirstStart(set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	for _, claim := range f.claims {
		if ours(set, claim) {
			return nil
		}
	}
	if refused := checkVolumes(set, f); refused != nil && !sizeIsRefused(refused) {
		return refused
	}
	return nil
}

// provide has the claims of one pod there, or says why they cannot be.
func (c *Controller) provide(ctx context.Context, set *platformv1.WorkloadSet, f *facts, ordinal int32) outcome.Outcome {
	if refused := refuseFirstStart(set, f); refused != nil {
		return *refused
	}
	pod := platformv1.PodNameFor(set.Name, ordinal)
	for _, volume := range set.Spec.Volumes {
		claim := f.claims[set.Spec.ClaimNameFor(volume.Name, pod)]
		if claim != nil && claim.DeletionTimestamp != nil {
			return outcome.Waiting(platformv1.ReasonPodsNotReady, fmt.Sprintf("claim %s is being deleted: pod %s is made when it is gone", claim.Name, pod))
		}
		if refused := refuseClaim(set, f, ordinal, volume, claim); refused != nil && !sizeIsRefused(refused) {
			return *refused
		}
	}
	return apply.Outcome(c.ensureClaims(ctx, set, f, ordinal))
}

// ensureClaims makes the missing claims of one pod, and adopts those that it may. A claim has no owner
// reference: it goes only by the deletion policy.
func (c *Controller) ensureClaims(ctx context.Context, set *platformv1.WorkloadSet, f *facts, ordinal int32) error {
	pod := platformv1.PodNameFor(set.Name, ordinal)
	for _, volume := range set.Spec.Volumes {
		name := set.Spec.ClaimNameFor(volume.Name, pod)
		if claim := f.claims[name]; claim != nil {
			if !ours(set, claim) {
				if err := c.adopt(ctx, set, claim); err != nil {
					return err
				}
			}
			continue
		}
		claim := accept.Claim(set, ordinal, volume)
		if _, err := c.apply.Create(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// unplaced says whether a pod is there that has no node yet: a claim of it that was deleted is not kept for it.
func unplaced(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Spec.NodeName == ""
}

// tendClaims makes the claims that a pod waits for, asks for the wanted size where a claim is smaller and may grow, and keeps on
// each claim whose data it holds. While pods go to other volumes nothing waits for one: those that wait are about to end.
func (c *Controller) tendClaims(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	if f.moves {
		return nil
	}
	var failed error
	made := map[int32]bool{}
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if failed == nil && claim == nil && !made[ordinal] && unplaced(f.pods[platformv1.PodNameFor(set.Name, ordinal)]) {
			made[ordinal] = true
			failed = c.ensureClaims(ctx, set, f, ordinal)
			return
		}
		if failed != nil || claim == nil || !ours(set, claim) || claim.DeletionTimestamp != nil {
			return
		}
		wanted := claim.DeepCopy()
		if claim.Annotations[platformv1.DataAnnotation] != accept.DataOf(&set.Spec) {
			if wanted.Annotations == nil {
				wanted.Annotations = map[string]string{}
			}
			wanted.Annotations[platformv1.DataAnnotation] = accept.DataOf(&set.Spec)
		}
		have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if have.Cmp(volume.Size) < 0 && refuseClaim(set, f, ordinal, volume, claim) == nil {
			wanted.Spec.Resources.Requests[corev1.ResourceStorage] = volume.Size
			c.events.Normal(set, "ExpandingVolume", "claim %s grows from %s to %s", claim.Name, have.String(), volume.Size.String())
		}
		if !equality.Semantic.DeepEqual(claim, wanted) {
			failed = c.client.Patch(ctx, wanted, client.MergeFrom(claim), client.FieldOwner(owner))
		}
	})
	return client.IgnoreNotFound(failed)
}
