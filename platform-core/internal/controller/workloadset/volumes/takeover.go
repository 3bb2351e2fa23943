// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// takesOver says whether it is to be looked for snapshots of an earlier Application before any pod is made. A set that
// has a pod, or had a primary, is complete: old data beside members that went on would be worse than none.
func takesOver(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	return set.Spec.AdoptVolumes != "" && set.Status.Adopted != set.Spec.AdoptVolumes && len(set.Spec.Volumes) > 0 &&
		f.Mode == rollout.Running && len(f.Pods) == 0 &&
		set.Status.Primary == nil && set.Spec.Generation() == "" && len(set.Spec.Ordinals()) > 0
}

// copied is a claim to be made of a snapshot.
type copied struct {
	claim    *corev1.PersistentVolumeClaim
	snapshot volumesnapshot.Snapshot
}

// TakeOver makes the claims of all pods that an earlier Application left snapshots of, once all of those fit. It
// returns nil once that is on record, and where there is nothing to do. Retained volumes are adopted pod by pod,
// afterwards.
func (r *Reconciler) TakeOver(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) (*facts.Facts,
	*outcome.Outcome) {
	if !takesOver(set, f) {
		return f, nil
	}
	labels := facts.Selector(set)
	labels[platformv1.ApplicationUIDLabel] = set.Spec.AdoptVolumes
	all, err := volumesnapshot.List(ctx, r.Live, set.Namespace, labels)
	if err != nil {
		return f, new(outcome.Failed(err))
	}
	// A claim that the cache does not show yet, of the previous reconcile, is there all the same.
	fresh, err := r.LiveClaims(ctx, set, f)
	if err != nil {
		return f, new(outcome.Failed(err))
	}
	f = fresh
	if refused := refuseFirstStart(set, f); refused != nil {
		return f, refused
	}
	if generations := volumesnapshot.Generations(all); len(generations) > 1 {
		return f, new(outcome.StalledFor(snapshotRetry, platformv1.ReasonAdoptionRefused, fmt.Sprintf("Application %s "+
			"left VolumeSnapshots of the generations %q of its volumes, and it is not recorded which have the data: delete "+
			"those of the others, or take the label %s off them",
			set.Spec.AdoptVolumes, generations, platformv1.ApplicationUIDLabel)))
	}
	wanted, refused := copies(set, f, volumesnapshot.Latest(all))
	if refused != nil {
		return f, refused
	}
	for _, one := range wanted {
		if _, err := r.Apply.Create(ctx, one.claim); err != nil {
			return f, new(apply.Outcome(err))
		}
		r.Events.Normal(set, "AdoptingSnapshot", "Claim %s is made of VolumeSnapshot %s of Application %s.", one.claim.Name,
			one.snapshot.GetName(), set.Spec.AdoptVolumes)
	}
	set.Status.Adopted = set.Spec.AdoptVolumes
	// That it was done is on record before there is a pod.
	return f, new(outcome.Waiting(platformv1.ReasonProgressing,
		"the pods are about to be made on the data of Application "+set.Spec.AdoptVolumes))
}

// copies are the claims to be made of the latest snapshots, by claim, or why none is.
func copies(set *platformv1.WorkloadSet, f *facts.Facts, latest map[string]volumesnapshot.Snapshot) (wanted []copied,
	refused *outcome.Outcome) {
	wanted, refused = fittingCopies(set, f, latest)
	if refused != nil || len(wanted) == 0 && hasVolumes(set, f) {
		return nil, refused
	}
	if r := accept.SnapshotsLeftOut(set, latest); r != nil {
		return nil, new(outcome.StalledFor(snapshotRetry, r.Reason, r.Message))
	}
	return wanted, nil
}

// fittingCopies are those claims, each of which fits, or why one does not.
func fittingCopies(set *platformv1.WorkloadSet, f *facts.Facts,
	latest map[string]volumesnapshot.Snapshot) (wanted []copied, refused *outcome.Outcome) {
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if refused != nil || claim != nil {
			return
		}
		claim = accept.Claim(set, ordinal, volume)
		snapshot, found := latest[claim.Name]
		if !found {
			return
		}
		if refused = refuseSnapshot(set, f, ordinal, volume, snapshot); refused == nil {
			claim.Spec.DataSource = snapshot.Source()
			wanted = append(wanted, copied{claim, snapshot})
		}
	})
	return wanted, refused
}

// refuseSnapshot says why no claim is made of a snapshot, or not yet; nil when one is.
func refuseSnapshot(set *platformv1.WorkloadSet, f *facts.Facts, ordinal int32, volume platformv1.SetVolume,
	snapshot volumesnapshot.Snapshot) *outcome.Outcome {
	r := accept.SnapshotAdoption(&set.Spec, ordinal, volume, wantedClass(f, volume.StorageClassName), snapshot)
	if r != nil {
		return new(outcome.StalledFor(snapshotRetry, r.Reason, r.Message))
	}
	if !snapshot.IsReady() {
		why := ""
		if problem := snapshot.Error(); problem != "" {
			why = ": " + problem
		}
		return new(outcome.StalledFor(snapshotLook, platformv1.ReasonAdoptionRefused,
			fmt.Sprintf("VolumeSnapshot %s cannot be adopted while it is not ready to use%s; it is looked at again: see "+
				"whether the snapshot controller and the CSI driver of the volume run", snapshot.GetName(), why)))
	}
	return nil
}
