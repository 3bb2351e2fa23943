// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// snapshotLook is how often snapshots that are being made are looked at: they are not watched.
	snapshotLook = 5 * time.Second
	// snapshotRetry is how often it is looked whether what keeps a snapshot from being made was mended.
	snapshotRetry = 30 * time.Second
	// snapshotPatience is how long a snapshot may take, of which nobody says what is wrong, before a person is told.
	snapshotPatience = 10 * time.Minute
)

// Delete deletes the claims of a set that goes, under the policy Snapshot once there is a snapshot of each.
func (r *Reconciler) Delete(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	var claims corev1.PersistentVolumeClaimList
	if err := r.Live.List(ctx, &claims, client.InNamespace(set.Namespace), facts.Selector(set),
		client.MatchingLabels{platformv1.ApplicationUIDLabel: set.Labels[platformv1.ApplicationUIDLabel]}); err != nil {
		return outcome.Failed(err)
	}
	if set.Spec.DeletionPolicy == platformv1.DeletionPolicySnapshot {
		if o := r.snapshotAll(ctx, set, claims.Items); o.Kind() != outcome.KindDone {
			return o
		}
	}
	for i := range claims.Items {
		if err := r.Apply.Delete(ctx, &claims.Items[i]); err != nil {
			return outcome.Failed(err)
		}
	}
	return outcome.Done()
}

// snapshotAll has a snapshot of each volume of a set that goes, and is done when all can be used. What is on a volume
// that somebody deletes is not asked for, a claim that never had a volume has no data, and one that a restore was
// filling has none that a pod ever had. In a namespace that is being deleted no snapshot would stay.
func (r *Reconciler) snapshotAll(ctx context.Context, set *platformv1.WorkloadSet,
	claims []corev1.PersistentVolumeClaim) outcome.Outcome {
	switch ending, err := r.isEnding(ctx, set.Namespace); {
	case err != nil:
		return outcome.Failed(err)
	case ending:
		return outcome.Done()
	}
	var outcomes []outcome.Outcome
	var names []string
	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp != nil || claim.Spec.VolumeName == "" ||
			claim.Annotations[platformv1.PreparedAnnotation] != "" {
			continue
		}
		o := r.snapshotOf(ctx, set, claim)
		if err := o.Err(); apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return outcome.Done()
		}
		outcomes, names = append(outcomes, o), append(names, volumesnapshot.NameFor(claim))
	}
	worst := outcome.Worst(outcomes...)
	if worst.Kind() == outcome.KindDone && len(names) > 0 {
		r.Events.Normal(set, "Snapshotted", "The data is in the VolumeSnapshots %s, and the volumes are deleted. An "+
			"instance that is made anew under this name begins with it when adoptVolumes is %s.",
			strings.Join(names, ", "), set.Labels[platformv1.ApplicationUIDLabel])
	}
	return worst
}

// isEnding says whether a namespace is being deleted.
func (r *Reconciler) isEnding(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// snapshotOf brings the snapshot of one claim on.
func (r *Reconciler) snapshotOf(ctx context.Context, set *platformv1.WorkloadSet,
	claim *corev1.PersistentVolumeClaim) outcome.Outcome {
	name := volumesnapshot.NameFor(claim)
	s, err := volumesnapshot.Get(ctx, r.Live, client.ObjectKey{Namespace: claim.Namespace, Name: name})
	switch {
	case volumesnapshot.IsAbsent(err):
		return r.noSnapshot(set, claim, volumesnapshot.KindsAbsent)
	case apierrors.IsNotFound(err):
		return r.makeSnapshot(ctx, set, claim)
	case err != nil:
		return outcome.Failed(fmt.Errorf("cannot read VolumeSnapshot %q: %w", name, err))
	case !s.IsOf(claim):
		return r.noSnapshot(set, claim, fmt.Sprintf("there is a VolumeSnapshot %q that is of something else: delete it",
			name))
	case s.GetDeletionTimestamp() != nil:
		// Somebody deletes it, or the namespace, which takes none then.
		return r.makeSnapshot(ctx, set, claim)
	case s.IsReady() && volumesnapshot.IsHeld(claim):
		return r.awaitRelease(ctx, s, claim)
	case s.IsReady():
		return outcome.Done()
	case s.Error() != "":
		return r.noSnapshot(set, claim, fmt.Sprintf("VolumeSnapshot %q is not ready to use: %s", name, s.Error()))
	case r.Now().Sub(s.GetCreationTimestamp().Time) > snapshotPatience:
		return r.noSnapshot(set, claim, fmt.Sprintf("VolumeSnapshot %q is not ready to use after %s, without a reason: "+
			"see whether the snapshot controller and the CSI driver of the volume run", name, snapshotPatience))
	}
	return outcome.WaitingFor(snapshotLook, platformv1.ReasonDeleting,
		fmt.Sprintf("waiting for VolumeSnapshot %q to be ready to use, before claim %q is deleted", name, claim.Name))
}

// awaitRelease has the snapshot controller look at a snapshot again, since it still holds the claim, and waits for it
// to let go.
func (r *Reconciler) awaitRelease(ctx context.Context, s volumesnapshot.Snapshot,
	claim *corev1.PersistentVolumeClaim) outcome.Outcome {
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, platformv1.AwaitedAnnotation,
		r.Now().UTC().Format(time.RFC3339))
	if err := r.Client.Patch(ctx, s.Unstructured, client.RawPatch(types.MergePatchType, []byte(body)),
		client.FieldOwner(facts.Owner)); client.IgnoreNotFound(err) != nil {
		return outcome.Failed(fmt.Errorf("cannot annotate VolumeSnapshot %q: %w", s.GetName(), err))
	}
	return outcome.WaitingFor(snapshotLook, platformv1.ReasonDeleting,
		fmt.Sprintf("waiting for the snapshot controller to take finalizer %s from claim %q, before that is deleted",
			volumesnapshot.SourceFinalizer, claim.Name))
}

// makeSnapshot makes the snapshot of a claim, or says what keeps it from that.
func (r *Reconciler) makeSnapshot(ctx context.Context, set *platformv1.WorkloadSet,
	claim *corev1.PersistentVolumeClaim) outcome.Outcome {
	by, why, err := volumesnapshot.MakerOf(ctx, r.Live, claim)
	switch {
	case err != nil:
		return outcome.Failed(err)
	case why != "":
		return r.noSnapshot(set, claim, why)
	}
	s := volumesnapshot.Of(claim, by)
	err = r.Client.Create(ctx, s.Unstructured, client.FieldOwner(facts.Owner))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return outcome.WaitingFor(snapshotLook, platformv1.ReasonDeleting,
			fmt.Sprintf("VolumeSnapshot %q of claim %q is being made", s.GetName(), claim.Name))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return outcome.Failed(err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return r.noSnapshot(set, claim, fmt.Sprintf("VolumeSnapshot %q cannot be made: %v", s.GetName(), err))
	}
	return outcome.Failed(fmt.Errorf("cannot make VolumeSnapshot %q: %w", s.GetName(), err))
}

// noSnapshot says that the volumes stay until somebody has mended something or decided otherwise. The Application may
// be gone by now, and the set alone is left to say it on.
func (r *Reconciler) noSnapshot(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim,
	why string) outcome.Outcome {
	message := fmt.Sprintf("claim %q is not deleted before there is a snapshot of it: %s; or set spec.deletionPolicy of "+
		"WorkloadSet %q to Retain to keep the volumes, or to Delete to delete them without",
		claim.Name, why, set.Name)
	r.Events.Warning(set, platformv1.ReasonSnapshotFailed, "%s.", message)
	return outcome.StalledFor(snapshotRetry, platformv1.ReasonSnapshotFailed, message)
}
