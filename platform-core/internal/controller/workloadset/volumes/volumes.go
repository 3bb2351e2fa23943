// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// classLook is how often it is looked whether a StorageClass is there by now, or allows what is asked: sets do not
// watch them.
const classLook = time.Minute

// quotaRecheck is how soon a size that a quota forbids is asked for again.
const quotaRecheck = time.Minute

// eachClaim calls visit for every claim that the wanted pods of the set need,
// with the claim as it is or nil.
func eachClaim(set *platformv1.WorkloadSet, f *facts.Facts,
	visit func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim)) {
	for _, ordinal := range set.Spec.Ordinals() {
		pod := platformv1.PodNameFor(set.Name, ordinal)
		for _, volume := range set.Spec.Volumes {
			visit(ordinal, volume, f.Claims[set.Spec.ClaimNameFor(volume.Name, pod)])
		}
	}
}

// changeIsRefused says whether a refusal is about another size or class only: a pod can start on the claim as it is.
func changeIsRefused(refused *outcome.Outcome) bool {
	return slices.Contains([]string{platformv1.ReasonVolumeShrinkRefused, platformv1.ReasonVolumeExpansionUnsupported,
		platformv1.ReasonVolumeClassRefused}, refused.Reason())
}

// adopted says whether a claim of the set was that of an earlier Application: it was there before the set. It keeps its
// class, whatever the others have.
func adopted(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) bool {
	return (set.Spec.AdoptVolumes != "" || set.Status.Adopted != "") &&
		!set.CreationTimestamp.Before(&claim.CreationTimestamp)
}

// refuseClaim says why a claim cannot be used or cannot become what is asked; nil when it can.
func refuseClaim(set *platformv1.WorkloadSet, f *facts.Facts, ordinal int32, volume platformv1.SetVolume,
	claim *corev1.PersistentVolumeClaim) *outcome.Outcome {
	refuse := func(reason, format string, args ...any) *outcome.Outcome {
		return new(outcome.StalledFor(classLook, reason, fmt.Sprintf(format, args...)))
	}
	if claim == nil {
		return refuseClass(f, volume)
	}
	if !facts.Ours(set, claim) {
		if r := accept.Adoption(&set.Spec, ordinal, claim); r != nil {
			return new(outcome.Stalled(r.Reason, r.Message))
		}
	}
	if r := accept.Shrink(claim, volume.Size); r != nil {
		return new(outcome.Stalled(r.Reason, r.Message))
	}
	if why := infeasible(claim, volume.Size); why != "" {
		return new(outcome.Stalled(platformv1.ReasonVolumeExpansionUnsupported, cannotGrow(set, f, volume, claim, why)))
	}
	if have := claim.Spec.Resources.Requests[corev1.ResourceStorage]; have.Cmp(volume.Size) < 0 {
		class := classOf(f, claim)
		if class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
			return refuse(platformv1.ReasonVolumeExpansionUnsupported,
				"claim %s cannot grow from %s to %s: its storage class does not allow expansion; set the size back to %s",
				claim.Name, have.String(), volume.Size.String(), have.String())
		}
	}
	if !facts.Ours(set, claim) || adopted(set, claim) {
		return nil
	}
	if r := accept.OtherClass(claim, volume); r != nil {
		return new(outcome.Stalled(r.Reason, r.Message))
	}
	return nil
}

func classOf(f *facts.Facts, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	return f.Classes[*claim.Spec.StorageClassName]
}

// wantedClass is the StorageClass that a claim gets that asks for this one; nil when there is none.
func wantedClass(f *facts.Facts, name *string) *storagev1.StorageClass {
	if name != nil {
		return f.Classes[*name]
	}
	for _, class := range f.Classes {
		if class.Annotations[accept.DefaultClassAnnotation] == "true" {
			return class
		}
	}
	return nil
}

// refuseClass says what is wrong with the StorageClass of a claim to be made.
func refuseClass(f *facts.Facts, volume platformv1.SetVolume) *outcome.Outcome {
	name := volume.StorageClassName
	if wantedClass(f, name) != nil {
		return nil
	}
	field, _ := accept.ClassField(volume.Name)
	if name != nil {
		return new(outcome.StalledFor(classLook, platformv1.ReasonStorageClassNotFound,
			fmt.Sprintf("there is no StorageClass %q: create it or name another one in %s.storageClassName", *name, field)))
	}
	return new(outcome.StalledFor(classLook, platformv1.ReasonStorageClassNotFound,
		fmt.Sprintf("the cluster has no default StorageClass: name one in %s.storageClassName", field)))
}

// checkVolumes returns the first refusal among all claims. What runs goes on running.
func checkVolumes(set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	var refused *outcome.Outcome
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if refused == nil {
			refused = refuseClaim(set, f, ordinal, volume, claim)
		}
	})
	return refused
}

// refuseFirstStart says why no pod at all is made yet: before the set has a volume of its own, all that it needs must
// be usable. Half of its members with old data and half without would be worse than none.
func refuseFirstStart(set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	if hasVolumes(set, f) {
		return nil
	}
	if refused := checkVolumes(set, f); refused != nil && !changeIsRefused(refused) {
		return refused
	}
	return refuseLeftOut(set, f)
}

// hasVolumes says whether the set has volumes of its own.
func hasVolumes(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	for _, claim := range f.Claims {
		if facts.Ours(set, claim) {
			return true
		}
	}
	return false
}

// refuseLeftOut says which volumes of an earlier Application hold data that a set would begin without.
func refuseLeftOut(set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	if r := accept.LeftOut(set, f.Claims); r != nil && !hasVolumes(set, f) {
		return new(outcome.Stalled(r.Reason, r.Message))
	}
	return nil
}

// Provide has the claims of one pod there, or says why they cannot be.
func (r *Reconciler) Provide(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	ordinal int32) outcome.Outcome {
	if refused := refuseFirstStart(set, f); refused != nil {
		return *refused
	}
	pod := platformv1.PodNameFor(set.Name, ordinal)
	for _, volume := range set.Spec.Volumes {
		claim := f.Claims[set.Spec.ClaimNameFor(volume.Name, pod)]
		if claim != nil && claim.DeletionTimestamp != nil {
			return outcome.Waiting(platformv1.ReasonPodsNotReady,
				fmt.Sprintf("claim %s is being deleted: pod %s is made when it is gone", claim.Name, pod))
		}
		if refused := refuseClaim(set, f, ordinal, volume, claim); refused != nil && !changeIsRefused(refused) {
			return *refused
		}
	}
	return apply.Outcome(r.ensureClaims(ctx, set, f, ordinal))
}

// ensureClaims makes the missing claims of one pod, and adopts those that it may. A claim has no owner
// reference: it goes only by the deletion policy.
func (r *Reconciler) ensureClaims(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	ordinal int32) error {
	pod := platformv1.PodNameFor(set.Name, ordinal)
	for _, volume := range set.Spec.Volumes {
		name := set.Spec.ClaimNameFor(volume.Name, pod)
		if claim := f.Claims[name]; claim != nil {
			if !facts.Ours(set, claim) {
				if err := r.adopt(ctx, set, claim); err != nil {
					return err
				}
			}
			continue
		}
		claim := accept.Claim(set, ordinal, volume)
		if _, err := r.Apply.Create(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// unplaced says whether a pod is there that has no node yet: a claim of it that was deleted is not kept for it.
func unplaced(pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && pod.Spec.NodeName == ""
}

// Reconcile makes the claims that a pod waits for, and tends those that are there. While pods go to other volumes
// nothing waits for one: those that wait are about to end.
func (r *Reconciler) Reconcile(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) outcome.Outcome {
	var o outcome.Outcome
	if f.Moves {
		return o
	}
	if err := r.discardEmpty(ctx, set, f); err != nil {
		return outcome.Failed(err)
	}
	made := map[int32]bool{}
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		switch {
		case o.Kind() == outcome.KindFailed:
		case claim != nil:
			if facts.Ours(set, claim) && claim.DeletionTimestamp == nil {
				o = outcome.Worst(o, r.reconcileClaim(ctx, set, f, ordinal, volume, claim))
			}
		case !made[ordinal] && unplaced(f.Pods[platformv1.PodNameFor(set.Name, ordinal)]):
			made[ordinal] = true
			o = outcome.Worst(o, outcome.Failed(client.IgnoreNotFound(r.ensureClaims(ctx, set, f, ordinal))))
		}
	})
	return o
}

// reconcileClaim protects the data of a claim, and requests the wanted size: an expansion if the class allows it, or a
// smaller size if the volume has not grown yet. A claim that the API server rejects does not stop the reconcile of
// pods.
func (r *Reconciler) reconcileClaim(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts, ordinal int32,
	volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) outcome.Outcome {
	if !accept.IsNoted(&set.Spec, claim) {
		noted := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&noted.ObjectMeta, platformv1.DataAnnotation, accept.DataOf(&set.Spec))
		if err := r.Client.Patch(ctx, noted, client.MergeFrom(claim), client.FieldOwner(facts.Owner)); err != nil {
			return outcome.Failed(client.IgnoreNotFound(err))
		}
	}
	// Before it is bound, the API server lets nobody change it.
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if have.Cmp(volume.Size) == 0 || claim.Status.Phase != corev1.ClaimBound ||
		refuseClaim(set, f, ordinal, volume, claim) != nil {
		return outcome.Done()
	}
	resized := claim.DeepCopy()
	resized.Spec.Resources.Requests[corev1.ResourceStorage] = volume.Size
	err := r.Client.Patch(ctx, resized, client.MergeFrom(claim), client.FieldOwner(facts.Owner))
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return sizeRefused(volume, claim, err)
	case err == nil && have.Cmp(volume.Size) < 0:
		r.Events.Normal(set, "ExpandingVolume", "claim %s grows from %s to %s", claim.Name, have.String(),
			volume.Size.String())
	case err == nil:
		r.Events.Normal(set, "ExpandingVolume", "claim %s grows to %s and not to %s", claim.Name, volume.Size.String(),
			have.String())
	}
	return outcome.Failed(client.IgnoreNotFound(err))
}

// sizeRefused says what to do about a size that the API server lets no claim ask for: a larger one for a quota, a
// smaller one since it is older than Kubernetes 1.32.
func sizeRefused(volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim, err error) outcome.Outcome {
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if have.Cmp(volume.Size) < 0 {
		return outcome.StalledFor(quotaRecheck, platformv1.ReasonVolumeExpansionUnsupported,
			fmt.Sprintf("claim %s may not grow from %s to %s (%v): mend that, or set the size back to %s", claim.Name,
				have.String(), volume.Size.String(), err, have.String()))
	}
	return outcome.StalledFor(quotaRecheck, platformv1.ReasonVolumeShrinkRefused,
		fmt.Sprintf("claim %s is to have %s, and the API server does not have it ask for %s instead, as Kubernetes does "+
			"from 1.32 on (%v): set the size to at least %s",
			claim.Name, have.String(), volume.Size.String(), err, have.String()))
}
