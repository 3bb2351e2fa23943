// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// makeFromSnapshots makes the claims of the first pod of the VolumeSnapshots of a Backup. They go by the names of
// volumes: whoever the pods of the source were, the command that follows takes that out. It is done when all are there.
func (c *Controller) makeFromSnapshots(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	backup *platformv1.Backup) outcome.Outcome {
	// A claim that the cache does not show yet, of the previous reconcile, is there all the same.
	if err := c.observeClaims(ctx, c.live, set, f); err != nil {
		return outcome.Failed(err)
	}
	if refused := refuseFirstStart(set, f); refused != nil {
		return *refused
	}
	for i := range backup.Status.Snapshots {
		if o := c.makeFromSnapshot(ctx, set, f, backup, &backup.Status.Snapshots[i]); o.Kind() != outcome.KindDone {
			return o
		}
	}
	return outcome.Done()
}

// makeFromSnapshot makes the claim of one volume.
func (c *Controller) makeFromSnapshot(ctx context.Context, set *platformv1.WorkloadSet, f *facts,
	backup *platformv1.Backup, record *platformv1.VolumeSnapshotRecord) outcome.Outcome {
	no := func(format string, args ...any) outcome.Outcome {
		return outcome.StalledFor(snapshotRetry, platformv1.ReasonRestoreFailed, fmt.Sprintf(format, args...))
	}
	volume := volumeOf(set, record.Volume)
	if volume == nil {
		return no("Backup %q is of volume %q, and the pods have none of that name", backup.Name, record.Volume)
	}
	name := set.Spec.ClaimNameFor(volume.Name, set.FirstPod())
	if claim := f.claims[name]; claim != nil {
		if source := claim.Spec.DataSource; source == nil || source.Name != record.Name {
			return no("claim %q is there and was not made of VolumeSnapshot %q, which has the data of Backup %q: delete it if "+
				"what is on it is not wanted", name, record.Name, backup.Name)
		}
		return outcome.Done()
	}
	snapshot, err := volumesnapshot.Get(ctx, c.live, client.ObjectKey{Namespace: backup.Namespace, Name: record.Name})
	switch {
	case volumesnapshot.IsAbsent(err), apierrors.IsNotFound(err), err == nil &&
		(!snapshot.HasDataOf(backup) || snapshot.GetDeletionTimestamp() != nil):
		return no("VolumeSnapshot %q, which has the data of Backup %q, is gone: delete this object, and make it anew from "+
			"another Backup", record.Name, backup.Name)
	case err != nil:
		return outcome.Failed(fmt.Errorf("cannot read VolumeSnapshot %q: %w", record.Name, err))
	case !snapshot.IsReady():
		return no("VolumeSnapshot %q, which has the data of Backup %q, is not ready to use: %s", record.Name, backup.Name,
			snapshot.Error())
	}
	if r := accept.VolumeOf(*volume, wantedClass(f, volume.StorageClassName), snapshot); r != "" {
		return no("VolumeSnapshot %q, which has the data of Backup %q, cannot be used: %s", record.Name, backup.Name, r)
	}
	claim := accept.Claim(set, set.Spec.Ordinals()[0], *volume)
	claim.Spec.DataSource = snapshot.Source()
	if _, err := c.apply.Create(ctx, claim); err != nil {
		return apply.Outcome(err)
	}
	f.claims[claim.Name] = claim
	return outcome.Done()
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
