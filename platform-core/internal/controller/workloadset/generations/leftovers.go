// SPDX-License-Identifier: Apache-2.0

package generations

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/records"
)

// Sweep deletes volumes that an Operation prepared which is gone: it was deleted before a pod had them, and
// nobody else knows of them. Nothing is read where no volume is being prepared.
func (r *Reconciler) Sweep(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) error {
	left := prepared(set, f)
	if len(left) == 0 || set.Spec.Suspend {
		return nil
	}
	var known platformv1.OperationList
	if err := r.Client.List(ctx, &known, client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range known.Items {
		delete(left, known.Items[i].UID)
	}
	if len(left) == 0 {
		return nil
	}
	// The cache may not have it yet.
	present, err := records.Present(ctx, r.Live, r.Client, client.InNamespace(set.Namespace))
	if err != nil {
		return err
	}
	for _, op := range present {
		delete(left, op.UID)
	}
	fresh := &platformv1.WorkloadSet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(set), fresh); err != nil || fresh.UID != set.UID {
		return client.IgnoreNotFound(err)
	}
	for _, claims := range left {
		for _, claim := range claims {
			if err := r.discard(ctx, fresh, claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepared are the claims of other volumes than the pods have, or are to have, by the UID of the Operation that
// prepares them.
func prepared(set *platformv1.WorkloadSet, f *facts.Facts) map[types.UID][]*corev1.PersistentVolumeClaim {
	by := map[types.UID][]*corev1.PersistentVolumeClaim{}
	for _, claim := range f.Claims {
		operation := types.UID(claim.Annotations[platformv1.PreparedAnnotation])
		if operation != "" && facts.Ours(set, claim) && claim.DeletionTimestamp == nil &&
			claim.Labels[platformv1.GenerationLabel] != f.Asked && !inUse(set, claim) {
			by[operation] = append(by[operation], claim)
		}
	}
	return by
}

// inUse says whether a claim is of the volumes that a set asks for, or that a record of who may write is of.
func inUse(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) bool {
	generation := claim.Labels[platformv1.GenerationLabel]
	return generation == "" || generation == set.Spec.Generation() || set.Status.Primary != nil &&
		set.Status.Primary.Data == generation ||
		formerOf(set.Status.FormerPrimaries, generation) != nil
}

// discard deletes a claim, unless it is in use by now or somebody changed it since it was read: an Operation that puts
// volumes in place says so on them first.
func (r *Reconciler) discard(ctx context.Context, set *platformv1.WorkloadSet,
	claim *corev1.PersistentVolumeClaim) error {
	if inUse(set, claim) {
		return nil
	}
	err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("cannot delete claim %q, which was prepared by an Operation that is gone: %w", claim.Name, err)
	}
	r.Events.Normal(set, "VolumesDiscarded",
		"Volume %s is deleted: the Operation that prepared it is gone, and no pod ever had it.", claim.Name)
	return nil
}
