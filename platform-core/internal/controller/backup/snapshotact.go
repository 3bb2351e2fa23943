// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/volumesnapshot"
)

// observeSnapshotted reads what is needed where the data of a Backup is kept as VolumeSnapshots.
func (c *Controller) observeSnapshotted(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	going, f := !b.DeletionTimestamp.IsZero(), &seen.facts
	if b.Ended() && !going && b.Status.Leftovers != platformv1.LeftoversPossible && b.Status.Hold.Over() {
		verified, err := c.verified(ctx, b)
		f.verified = verified
		return err
	}
	if err := c.readSnapshots(ctx, b, f); err != nil {
		return err
	}
	if going || b.Ended() {
		return c.askHold(ctx, b, f)
	}
	if err := c.observeInstance(ctx, b, seen); err != nil {
		return err
	}
	f.of.method = seen.method.Snapshot
	if b.Status.Phase == platformv1.BackupRunning {
		return c.askHold(ctx, b, f)
	}
	f.limit = 1
	if f.refusal != "" || f.source == nil {
		return nil
	}
	return c.findVolume(ctx, b, seen)
}

// readSnapshots reads the VolumeSnapshots of a Backup as they are now.
func (c *Controller) readSnapshots(ctx context.Context, b *platformv1.Backup, f *facts) error {
	for i := range b.Status.Snapshots {
		name := b.Status.Snapshots[i].Name
		one, err := volumesnapshot.Get(ctx, c.live, client.ObjectKey{Namespace: b.Namespace, Name: name})
		switch {
		case volumesnapshot.IsAbsent(err), apierrors.IsNotFound(err):
			f.of.there = append(f.of.there, nil)
		case err != nil:
			return fmt.Errorf("cannot read VolumeSnapshot %q: %w", name, err)
		case !one.HasDataOf(b):
			f.of.foreign = name
			f.of.there = append(f.of.there, nil)
		default:
			f.of.there = append(f.of.there, &one)
		}
	}
	return nil
}

// findVolume looks up of which claim of the source a snapshot is to be made, and whether one can be.
func (c *Controller) findVolume(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	f, name := &seen.facts, seen.declared.Volumes[0].Name
	pod := &corev1.Pod{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: f.source.Pod}, pod)
	if apierrors.IsNotFound(err) {
		f.source, f.waits = nil, fmt.Sprintf("pod %s, which is gone", f.source.Pod)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read pod %q: %w", f.source.Pod, err)
	}
	claim := &corev1.PersistentVolumeClaim{}
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == name && volume.PersistentVolumeClaim != nil {
			claim.Name = volume.PersistentVolumeClaim.ClaimName
		}
	}
	if claim.Name == "" {
		f.refusal = fmt.Sprintf("pod %s has no volume %q on a claim: without storage of its own there is nothing that a "+
			"snapshot could be made of", pod.Name, name)
		return nil
	}
	f.of.podUID, f.of.wanted = pod.UID, platformv1.VolumeSnapshotRecord{Volume: name, Claim: claim.Name}
	_, why, err := c.maker(ctx, client.ObjectKey{Namespace: b.Namespace, Name: claim.Name}, claim)
	f.refusal = why
	return err
}

// maker reads a claim, and finds what makes snapshots of its volume, or says why there is nothing.
func (c *Controller) maker(ctx context.Context, key client.ObjectKey, claim *corev1.PersistentVolumeClaim) (
	by volumesnapshot.Maker, why string, err error) {
	err = c.live.Get(ctx, key, claim)
	switch {
	case apierrors.IsNotFound(err), err == nil && claim.Spec.VolumeName == "":
		return by, fmt.Sprintf("claim %q has no volume", key.Name), nil
	case err != nil:
		return by, "", fmt.Errorf("cannot read claim %q: %w", key.Name, err)
	}
	by, why, err = volumesnapshot.MakerOf(ctx, c.live, claim)
	if why != "" {
		why = fmt.Sprintf("there can be no snapshot of claim %q: %s", key.Name, why)
	}
	return by, why, err
}

// askHold has the source of a Backup keep still on, or go on where it need not any more, and hears how it stands.
func (c *Controller) askHold(ctx context.Context, b *platformv1.Backup, f *facts) error {
	h := b.Status.Hold
	if h.Over() || b.Status.Source == nil {
		return nil
	}
	pod := &corev1.Pod{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Status.Source.Pod}, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != h.PodUID {
		f.of.held = &agentclient.Held{Phase: agentclient.HoldLost, Thawed: true, Message: "the pod is gone"}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read pod %q: %w", b.Status.Source.Pod, err)
	}
	held, err := c.callHold(ctx, b, f, pod)
	if err != nil {
		f.of.problem = agentclient.ProblemOf(err)
		if agentclient.IsRefused(err) && !agentclient.IsUnknown(err) {
			f.of.refused = forGood
		}
		return nil
	}
	f.of.held = &held
	return nil
}

// callHold asks the agent. The key is the Backup: each source keeps still once for it.
func (c *Controller) callHold(ctx context.Context, b *platformv1.Backup, f *facts,
	pod *corev1.Pod) (agentclient.Held, error) {
	holder, err := c.Holds.DialHold(ctx, pod)
	if err != nil {
		return agentclient.Held{}, err
	}
	key := "backup/" + string(b.UID)
	wanted := b.Status.Phase == platformv1.BackupRunning && b.DeletionTimestamp.IsZero() && !b.Spec.Cancel &&
		f.now.Before(b.Deadline()) && f.of.method != nil
	if !wanted || f.of.taken() {
		return holder.Release(ctx, key)
	}
	return holder.Hold(ctx, agentclient.Hold{Key: key, Freeze: f.of.method.Freeze, Thaw: f.of.method.Thaw, Lease: lease})
}

// taken says whether all snapshots are of their moments.
func (of snapshotFacts) taken() bool {
	for _, one := range of.there {
		if one == nil || one.Taken() == nil {
			return false
		}
	}
	return len(of.there) > 0
}

// makeSnapshots makes the VolumeSnapshots that are not there.
func (c *Controller) makeSnapshots(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	for i := range b.Status.Snapshots {
		record := &b.Status.Snapshots[i]
		if i < len(seen.facts.of.there) && seen.facts.of.there[i] != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		by, why, err := c.maker(ctx, client.ObjectKey{Namespace: b.Namespace, Name: record.Claim}, claim)
		if err != nil {
			return err
		}
		if why != "" {
			return c.refuse(ctx, b, why)
		}
		err = c.client.Create(ctx, volumesnapshot.For(b, record, claim, by).Unstructured, client.FieldOwner(owner))
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), volumesnapshot.IsAbsent(err):
			return c.refuse(ctx, b, fmt.Sprintf("VolumeSnapshot %q cannot be made: %v", record.Name, err))
		default:
			return fmt.Errorf("cannot make VolumeSnapshot %q: %w", record.Name, err)
		}
	}
	return nil
}

// dropSnapshots deletes the VolumeSnapshots that were read, and none that took their place.
func (c *Controller) dropSnapshots(ctx context.Context, seen *observation) error {
	for _, one := range seen.facts.of.there {
		if one == nil || one.GetDeletionTimestamp() != nil {
			continue
		}
		uid := one.GetUID()
		err := c.client.Delete(ctx, one.Unstructured, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("cannot delete VolumeSnapshot %q: %w", one.GetName(), err)
		}
	}
	return nil
}
