// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// makeFromSnapshots makes the claims of the first pod of the VolumeSnapshots of a Backup. They go by the names of
// volumes: whoever the pods of the source were, the command that follows takes that out. It is done when all are there.
func (r *Reconciler) makeFromSnapshots(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	backup *platformv1.Backup) (*facts.Facts, outcome.Outcome) {
	// A claim that the cache does not show yet, of the previous reconcile, is there all the same.
	f, err := r.LiveClaims(ctx, set, f)
	if err != nil {
		return f, outcome.Failed(err)
	}
	if refused := refuseFirstStart(set, f); refused != nil {
		return f, *refused
	}
	for i := range backup.Status.Snapshots {
		claim, o := r.makeFromSnapshot(ctx, set, f, backup, &backup.Status.Snapshots[i])
		if o.Kind() != outcome.KindDone {
			return f, o
		}
		f = f.WithClaim(claim)
	}
	return f, outcome.Done()
}

// makeFromSnapshot makes the claim of one volume, and returns it once it is there.
func (r *Reconciler) makeFromSnapshot(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	backup *platformv1.Backup, record *platformv1.VolumeSnapshotRecord) (*corev1.PersistentVolumeClaim,
	outcome.Outcome) {
	no := func(format string, args ...any) (*corev1.PersistentVolumeClaim, outcome.Outcome) {
		return nil, outcome.StalledFor(snapshotRetry, platformv1.ReasonRestoreFailed, fmt.Sprintf(format, args...))
	}
	volume := volumeOf(set, record.Volume)
	if volume == nil {
		return no("Backup %q is of volume %q, and the pods have none of that name: delete this object, and make it anew "+
			"from another Backup", backup.Name, record.Volume)
	}
	name := set.Spec.ClaimNameFor(volume.Name, set.FirstPod())
	if claim := f.Claims[name]; claim != nil {
		if source := claim.Spec.DataSource; source == nil || source.Name != record.Name {
			return no("claim %q is there and was not made of VolumeSnapshot %q, which has the data of Backup %q: delete it if "+
				"what is on it is not wanted", name, record.Name, backup.Name)
		}
		return claim, outcome.Done()
	}
	snapshot, err := volumesnapshot.Get(ctx, r.Live, client.ObjectKey{Namespace: backup.Namespace, Name: record.Name})
	switch {
	case volumesnapshot.IsAbsent(err), apierrors.IsNotFound(err), err == nil &&
		(!snapshot.HasDataOf(backup) || snapshot.GetDeletionTimestamp() != nil):
		return no("VolumeSnapshot %q, which has the data of Backup %q, is gone: delete this object, and make it anew from "+
			"another Backup", record.Name, backup.Name)
	case err != nil:
		return nil, outcome.Failed(fmt.Errorf("cannot read VolumeSnapshot %q: %w", record.Name, err))
	case !snapshot.IsReady():
		return no("VolumeSnapshot %q, which has the data of Backup %q, is not ready to use: %s", record.Name, backup.Name,
			snapshot.Error())
	}
	if why := accept.VolumeOf(*volume, wantedClass(f, volume.StorageClassName), snapshot); why != "" {
		return no("VolumeSnapshot %q, which has the data of Backup %q, cannot be used: %s", record.Name, backup.Name, why)
	}
	claim := accept.Claim(set, set.Spec.Ordinals()[0], *volume)
	claim.Spec.DataSource = snapshot.Source()
	if _, err := r.Apply.Create(ctx, claim); err != nil {
		return nil, apply.Outcome(err)
	}
	return claim, outcome.Done()
}

// volumeOf is a volume of the set by name; nil for none.
func volumeOf(set *platformv1.WorkloadSet, name string) *platformv1.SetVolume {
	for i := range set.Spec.Volumes {
		if set.Spec.Volumes[i].Name == name {
			return &set.Spec.Volumes[i]
		}
	}
	return nil
}
