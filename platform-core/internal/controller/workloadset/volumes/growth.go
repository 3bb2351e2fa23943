// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// OnlinePatience is how long a node has to grow a file system under a running pod. Drivers that cannot
// do that say so by nothing else than waiting.
const OnlinePatience = 2 * time.Minute

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

// Fit says whether a pod has to be made anew for a volume of its own to get its size, and why; and else after what time
// that is to be asked again, or 0. A pod that was made after the storage had grown mounted it so: it is not made anew
// again. Nor is one whose node cannot give the size at all.
func (r *Reconciler) Fit(set *platformv1.WorkloadSet, f *facts.Facts, pod *corev1.Pod) (fit rollout.Fit, why string,
	again time.Duration) {
	for _, volume := range set.Spec.Volumes {
		claim := f.Claims[set.Spec.ClaimNameFor(volume.Name, pod.Name)]
		if claim == nil {
			continue
		}
		pending := resizePending(claim)
		if pending == nil || infeasible(claim, volume.Size) != "" ||
			pod.CreationTimestamp.After(pending.LastTransitionTime.Time) {
			continue
		}
		waited := f.Now.Sub(pending.LastTransitionTime.Time)
		if waited >= OnlinePatience {
			return rollout.Replace, fmt.Sprintf("the driver of claim %s does not grow it under a running pod", claim.Name), 0
		}
		if left := OnlinePatience - waited; again == 0 || left < again {
			again = left
		}
	}
	return rollout.Current, "", again
}

// volumeStates is the list of volumes for the status, in the order of pods.
func volumeStates(set *platformv1.WorkloadSet, f *facts.Facts) []platformv1.VolumeState {
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

func volumePhase(set *platformv1.WorkloadSet, f *facts.Facts, ordinal int32, volume platformv1.SetVolume,
	claim *corev1.PersistentVolumeClaim) platformv1.VolumePhase {
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

// expanding says of a claim whose volume has not yet the size that was asked for how far it is, first of one that does
// not get there; nil for none.
func expanding(set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	text, failing := "", ""
	eachClaim(set, f, func(_ int32, volume platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if claim == nil || claim.Status.Phase != corev1.ClaimBound {
			return
		}
		why, line := "", ""
		if triedFor(claim, volume.Size) {
			why = resizeError(claim)
		}
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		switch {
		case capacity.Cmp(volume.Size) < 0 && why != "":
			failing = cmp.Or(failing, cannotGrow(set, f, volume, claim, why))
		case resizePending(claim) != nil:
			line = fmt.Sprintf("the file system on the volume of claim %s grows to %s", claim.Name, volume.Size.String())
		case capacity.Cmp(volume.Size) < 0:
			line = fmt.Sprintf("volume of claim %s grows from %s to %s", claim.Name, capacity.String(), volume.Size.String())
		}
		text = cmp.Or(text, line)
	})
	switch {
	case failing != "":
		// Kubernetes goes on trying.
		return new(outcome.Waiting(platformv1.ReasonVolumeExpansionUnsupported, failing))
	case text != "":
		return new(outcome.Waiting(platformv1.ReasonProgressing, text))
	}
	return nil
}

// infeasible says why the storage of a claim can never give a size, in its own words; empty when it has not been tried,
// or can. What it says of another size, which was taken back or comes next, counts for nothing.
func infeasible(claim *corev1.PersistentVolumeClaim, size resource.Quantity) string {
	switch status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if _, grows := accept.Growing(claim); !grows || asks.Cmp(size) != 0 || !triedFor(claim, size) {
			return ""
		}
		if said := resizeError(claim); said != "" {
			return fmt.Sprintf("%s: %s", status, said)
		}
		return string(status)
	}
	return ""
}

// triedFor says whether what the storage of a claim says last is about a size, as far as is known.
func triedFor(claim *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	tried, told := claim.Status.AllocatedResources[corev1.ResourceStorage]
	return !told || tried.Cmp(size) == 0
}

// resizeError is what the storage of a claim, or the node, said last of an expansion that failed; empty when none did.
func resizeError(claim *corev1.PersistentVolumeClaim) string {
	for _, condition := range claim.Status.Conditions {
		if condition.Status == corev1.ConditionTrue &&
			(condition.Type == corev1.PersistentVolumeClaimControllerResizeError ||
				condition.Type == corev1.PersistentVolumeClaimNodeResizeError) {
			return cmp.Or(condition.Message, condition.Reason, string(condition.Type))
		}
	}
	return ""
}

// cannotGrow says what to do about a claim that does not get its size. No volume shrinks: where another one of the set
// has more, that is what the size has to be above.
func cannotGrow(set *platformv1.WorkloadSet, f *facts.Facts, volume platformv1.SetVolume,
	claim *corev1.PersistentVolumeClaim, why string) string {
	has := claim.Status.Capacity[corev1.ResourceStorage]
	most := has
	eachClaim(set, f, func(_ int32, other platformv1.SetVolume, claim *corev1.PersistentVolumeClaim) {
		if claim == nil || other.Name != volume.Name {
			return
		}
		if capacity := claim.Status.Capacity[corev1.ResourceStorage]; capacity.Cmp(most) > 0 {
			most = capacity
		}
	})
	what := fmt.Sprintf("make room for it, or set the size back to one above %s", most.String())
	if most.Cmp(volume.Size) >= 0 {
		what = "make room for it: others of the set have the size, and no volume shrinks"
	}
	return fmt.Sprintf("the volume of claim %s does not grow from %s to %s (%s): %s", claim.Name, has.String(),
		volume.Size.String(), why, what)
}
