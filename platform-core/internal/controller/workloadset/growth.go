// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// onlinePatience is how long a node has to grow a file system under a running pod. Drivers that cannot
// do that say so by nothing else than waiting.
const onlinePatience = 2 * time.Minute

// resizePending returns the condition of a claim whose storage has grown and whose file system has not.
func resizePending(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// fitVolumes says whether a pod has to be made anew for a volume of its own to get its size. A pod that was made
// after the storage had grown mounted it so: it is not made anew again.
func fitVolumes(set *platformv1.WorkloadSet, f *facts, pod *corev1.Pod) (rollout.Fit, string) {
	for _, volume := range set.Spec.Volumes {
		claim := f.claims[set.Spec.ClaimNameFor(volume.Name, pod.Name)]
		if claim == nil {
			continue
		}
		pending := resizePending(claim)
		if pending == nil || pod.CreationTimestamp.After(pending.LastTransitionTime.Time) {
			continue
		}
		waited := f.now.Sub(pending.LastTransitionTime.Time)
		if waited >= onlinePatience {
			return rollout.Replace, fmt.Sprintf("the driver of claim %s does not grow it under a running pod", claim.Name)
		}
		f.wakeAfter(onlinePatience - waited)
	}
	return rollout.Current, ""
}

// volumeStates is the list of volumes for the status, in the order of pods.
func volumeStates(set *platformv1.WorkloadSet, f *facts) []platformv1.VolumeState {
	var states []platformv1.VolumeState
	eachClaim(set, f, func(ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if claim == nil {
			return
		}
		state := platformv1.VolumeState{
			Claim:     claim.Name,
			Requested: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			Phase:     volumePhase(set, f, ordinal, volume, claim),
		}
		if capacity, found := claim.Status.Capacity[corev1.ResourceStorage]; found {
			state.Capacity = &capacity
		}
		states = append(states, state)
	})
	return states
}

func volumePhase(set *platformv1.WorkloadSet, f *facts, ordinal int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) platformv1.VolumePhase {
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return platformv1.VolumeLost
	case refuseClaim(set, f, ordinal, volume, claim) != nil:
		return platformv1.VolumeRefused
	case claim.Status.Phase != corev1.ClaimBound:
		return platformv1.VolumePending
	case resizePending(claim) != nil:
		return platformv1.VolumeFileSystemResizePending
	case capacity.Cmp(volume.Size) < 0:
		return platformv1.VolumeExpanding
	}
	return platformv1.VolumeBound
}

// expandingClaims names a claim whose volume has not yet the size that was asked for, and how far it is.
func expandingClaims(set *platformv1.WorkloadSet, f *facts) string {
	text := ""
	eachClaim(set, f, func(_ int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if text != "" || claim == nil || claim.Status.Phase != corev1.ClaimBound {
			return
		}
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		switch {
		case resizePending(claim) != nil:
			text = fmt.Sprintf("the file system on the volume of claim %s grows to %s", claim.Name, volume.Size.String())
		case capacity.Cmp(volume.Size) < 0:
			text = fmt.Sprintf("volume of claim %s grows from %s to %s", claim.Name, capacity.String(), volume.Size.String())
		}
	})
	return text
}
