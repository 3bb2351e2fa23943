// SPDX-License-Identifier: Apache-2.0

package generations

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/record"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// Plan says whether the pods of a set can change to the generation of the spec.
func Plan(set *platformv1.WorkloadSet, f *facts.Facts) Verdict {
	why := invalidGeneration(set, f)
	if why == "" {
		return Verdict{}
	}
	keeps := &platformv1.SetData{Generation: currentGeneration(set, f)}
	if f.Primary != nil {
		keeps.Access = f.Primary.Access
	}
	return Verdict{Invalid: why, Keeps: keeps}
}

// Confirm plans once more with live claims if the verdict refuses the generation of the spec: claims that are missing
// in the cache may exist, or have been restored by now.
func (r *Reconciler) Confirm(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) (*facts.Facts, Verdict,
	error) {
	verdict := Plan(set, f)
	if verdict.Invalid == "" {
		return f, verdict, nil
	}
	fresh, err := r.LiveClaims(ctx, set, f)
	if err != nil {
		return f, verdict, err
	}
	return fresh, Plan(set, fresh), nil
}

// invalidGeneration returns why pods cannot change to the generation of the spec; empty if they can, or have it.
func invalidGeneration(set *platformv1.WorkloadSet, f *facts.Facts) string {
	if set.Spec.Suspend || !f.Moves {
		return ""
	}
	generation := set.Spec.Generation()
	former := formerOf(set.Status.FormerPrimaries, generation)
	switch pod := firstPrimary(set, former); {
	case former != nil && former.Member != nil && !set.Wants(pod):
		// The other pods may lack acknowledged writes.
		return fmt.Sprintf("data.generation is %q, and pod %s, the last primary on the volumes of that generation, is "+
			"not wanted any more: the pods stay with those that they have; scale back so that pod %s is wanted, or set it "+
			"to what it was, %q",
			generation, pod, pod, currentGeneration(set, f))
	case !hasGeneration(set, f, pod):
		// New volumes would be empty.
		return fmt.Sprintf("data.generation is %q, and there are no volumes of that generation for pod %s: the pods stay "+
			"with those that they have; set it to what it was, %q", generation, pod, currentGeneration(set, f))
	}
	if f.Primary == nil || f.Primary.Data == generation || former != nil || untouched(set, f) {
		return ""
	}
	return fmt.Sprintf("data.generation is %q, and it is no longer known which of the pods with volumes of that "+
		"generation had the latest data: the pods stay with those that they have; set it to what it was, %q",
		generation, currentGeneration(set, f))
}

// currentGeneration returns the generation of the volumes that the pods have.
func currentGeneration(set *platformv1.WorkloadSet, f *facts.Facts) string {
	if f.Primary != nil {
		return f.Primary.Data
	}
	for _, name := range slices.Sorted(maps.Keys(f.Pods)) {
		for _, v := range f.Pods[name].Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			if claim := f.Claims[v.PersistentVolumeClaim.ClaimName]; claim != nil && facts.Ours(set, claim) {
				return claim.Labels[platformv1.GenerationLabel]
			}
		}
	}
	return ""
}

// firstPrimary returns the pod that becomes the first primary on the generation of the spec: the last primary of that
// generation, or else the first pod.
func firstPrimary(set *platformv1.WorkloadSet, former *platformv1.PrimaryRecord) string {
	if former != nil && former.Member != nil {
		return former.Member.Name
	}
	return set.FirstPod()
}

// hasGeneration says whether a pod has all of its volumes of the spec's generation.
func hasGeneration(set *platformv1.WorkloadSet, f *facts.Facts, pod string) bool {
	for _, volume := range set.Spec.Volumes {
		if claim := f.Claims[set.Spec.ClaimNameFor(volume.Name, pod)]; claim == nil || !facts.Ours(set, claim) ||
			claim.DeletionTimestamp != nil {
			return false
		}
	}
	return pod != ""
}

// untouched says whether only the first pod can have data of the spec's generation, so that it becomes the primary.
func untouched(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	for _, claim := range f.Claims {
		if claim.Labels[platformv1.GenerationLabel] == set.Spec.Generation() && facts.Ours(set, claim) &&
			claim.Labels[platformv1.OrdinalLabel] != firstOrdinal(set) {
			return false
		}
	}
	return set.Spec.Generation() == "" || restored(set, f)
}

func firstOrdinal(set *platformv1.WorkloadSet) string {
	return strconv.Itoa(int(set.Spec.Ordinals()[0]))
}

// restored says whether the volumes of the first pod are those that a Backup was restored to.
func restored(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	for _, volume := range set.Spec.Volumes {
		claim := f.Claims[set.Spec.ClaimNameFor(volume.Name, set.FirstPod())]
		if claim == nil || claim.DeletionTimestamp != nil || claim.Annotations[platformv1.RestoredAnnotation] == "" {
			return false
		}
	}
	return true
}

// unfilled rejects other volumes whose first pod does not have the restored volumes: they were deleted, or another pod
// is the first now. Once a primary is on record, its identity identifies the volumes.
func unfilled(set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	begun := f.Primary != nil && !record.Of(f.Primary).Founding() || f.Primary == nil && !set.Spec.IsClosed()
	if set.Spec.Generation() == "" || f.Moves || begun || f.Mode != rollout.Running ||
		len(set.Spec.Ordinals()) == 0 || restored(set, f) {
		return nil
	}
	return new(outcome.Stalled(platformv1.ReasonRestoreFailed, fmt.Sprintf("the volumes of pod %s of generation %q "+
		"are not those that were filled: somebody deleted them, or another pod became the first; no pod begins on empty "+
		"ones. The Operation that restores goes back to the previous volumes",
		set.FirstPod(), set.Spec.Generation())))
}

// Moving returns the progress of a change to another generation.
func Moving(set *platformv1.WorkloadSet, f *facts.Facts) outcome.Outcome {
	to := "the volumes that it was made with"
	if set.Spec.Generation() != "" {
		to = fmt.Sprintf("the volumes of generation %s", set.Spec.Generation())
	}
	return outcome.Waiting(platformv1.ReasonRestoring,
		fmt.Sprintf("its pods go to %s: %d have to end before", to, len(f.Pods)))
}

// Reconcile updates the record of the primary to the generation of the spec, before a pod of it is created. It returns
// nil if nothing is to be done, and other facts where pods were read live.
func (r *Reconciler) Reconcile(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) (*facts.Facts,
	*outcome.Outcome) {
	if set.Spec.Suspend {
		return f, nil
	}
	if set.Spec.Data == nil {
		if o := r.findGeneration(ctx, set, f); o != nil {
			return f, o
		}
	}
	if o := unfilled(set, f); o != nil {
		return f, o
	}
	if o := r.noteAccess(ctx, set, f); o != nil {
		return f, o
	}
	if !f.Moves || len(f.Pods) > 0 || f.Primary == nil || f.Primary.Data == set.Spec.Generation() {
		return f, nil
	}
	// Pods that are missing in the cache may still exist.
	fresh, err := r.LivePods(ctx, set, f)
	if err != nil {
		return f, new(outcome.Failed(err))
	}
	if len(fresh.Pods) > 0 {
		return fresh, nil
	}
	return fresh, new(r.takeUpGeneration(ctx, set, fresh))
}

// noteAccess stores in the record whether clients have access to its volumes, before they get it. It returns nil if it
// is up to date.
func (r *Reconciler) noteAccess(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	access := set.Spec.Access()
	if f.Primary == nil || f.Primary.Data != set.Spec.Generation() || f.Primary.Access == access {
		return nil
	}
	var value any
	if access != "" {
		value = access
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion},
		"status":   map[string]any{"primary": map[string]any{"access": value}}})
	if err != nil {
		return new(outcome.Failed(err))
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = r.Client.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, body),
		client.FieldOwner(facts.Owner))
	if err != nil && !apierrors.IsConflict(err) {
		return new(outcome.Failed(err))
	}
	return new(outcome.WaitingFor(recheck, platformv1.ReasonRestoring,
		"whether clients are led to its data is about to change"))
}

// takeUpGeneration writes a record of who may write on other volumes, in a later term than any before: the one of the
// last time that the pods had them, and else one that names nobody. No pod of the set is there.
func (r *Reconciler) takeUpGeneration(ctx context.Context, set *platformv1.WorkloadSet,
	f *facts.Facts) outcome.Outcome {
	live := &platformv1.WorkloadSet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(set), live); err != nil {
		return outcome.Failed(err)
	}
	generation, present := live.Spec.Generation(), live.Status.Primary
	again := outcome.WaitingFor(recheck, platformv1.ReasonRestoring, "its pods are about to begin on other volumes")
	if live.UID != set.UID || generation != set.Spec.Generation() || present == nil || present.Data == generation {
		return again
	}
	next := recordFor(generation, present, formerOf(live.Status.FormerPrimaries, generation))
	next.Access = live.Spec.Access()
	if next.Member != nil {
		next.Since = &metav1.Time{Time: r.Now()}
	}
	// A record is replaced as a whole, by who has read what is there.
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	body, err := json.Marshal([]operation{
		{"replace", "/metadata/uid", live.UID}, {"replace", "/metadata/resourceVersion", live.ResourceVersion},
		{"add", "/status/primary", next}, {"add", "/status/formerPrimaries",
			formerPrimaries(live.Status.FormerPrimaries, present, next, f.Claims)},
	})
	if err != nil {
		return outcome.Failed(err)
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	if err := r.Client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, body),
		client.FieldOwner(facts.Owner)); err != nil {
		return outcome.Failed(err)
	}
	r.Forget(client.ObjectKeyFromObject(set))
	r.Events.Normal(set, "VolumesChanged", "Its pods begin on other volumes, in term %d: generation %q in place of %q.",
		next.Term, generation, present.Data)
	return again
}

// formerOf is the record of the last time that pods had the volumes of a generation; nil for none.
func formerOf(records []platformv1.PrimaryRecord, generation string) *platformv1.PrimaryRecord {
	for i := range records {
		if records[i].Data == generation {
			return &records[i]
		}
	}
	return nil
}

// recordFor is the record that follows the present one when pods go to another generation of volumes, of which there
// may be a former one.
func recordFor(generation string, present, former *platformv1.PrimaryRecord) *platformv1.PrimaryRecord {
	if former == nil {
		founded := record.Of(present).Refound()
		return &platformv1.PrimaryRecord{Term: founded.Term, List: record.StoredList(founded.List), Data: generation,
			Changes: present.Changes}
	}
	next := former.DeepCopy()
	next.Term, next.Changes = max(present.Term, former.Term)+1, present.Changes
	return next
}

// formerPrimaries are the records to keep when one is replaced: those of volumes that are there, so that none is
// without that pods may go back to.
func formerPrimaries(before []platformv1.PrimaryRecord, replaced, next *platformv1.PrimaryRecord,
	claims map[string]*corev1.PersistentVolumeClaim) []platformv1.PrimaryRecord {
	found := map[string]bool{}
	for _, claim := range claims {
		found[claim.Labels[platformv1.GenerationLabel]] = true
	}
	var kept []platformv1.PrimaryRecord
	for _, record := range before {
		if found[record.Data] && record.Data != next.Data && record.Data != replaced.Data {
			kept = append(kept, record)
		}
	}
	last := replaced.DeepCopy()
	last.Changes = nil
	kept = append(kept, *last)
	return kept[max(0, len(kept)-platformv1.MaxFormerPrimaries):]
}

// findGeneration is for a set that was made anew beside volumes of an earlier one, which a restore had given it: it
// goes on with those, and says so in its spec. Where there are several it is for a person to say which.
func (r *Reconciler) findGeneration(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) *outcome.Outcome {
	if f.Primary != nil || len(f.Pods) > 0 || len(set.Spec.Ordinals()) == 0 {
		return nil
	}
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.Claims)) {
		claim := f.Claims[name]
		generation := claim.Labels[platformv1.GenerationLabel]
		theirs := claim.Labels[platformv1.ApplicationUIDLabel]
		switch {
		case claim.DeletionTimestamp != nil || claim.Annotations[platformv1.PreparedAnnotation] != "":
		case facts.Ours(set, claim), theirs != "" && theirs == set.Spec.AdoptVolumes:
			found[generation] = true
		case generation != "":
			// It is as much in the way as one under the name of ours.
			if refused := accept.Adoption(&set.Spec, set.Spec.Ordinals()[0], claim); refused != nil {
				return new(outcome.Stalled(refused.Reason, refused.Message))
			}
		}
	}
	generations := slices.Sorted(maps.Keys(found))
	switch {
	case len(generations) == 0, len(generations) == 1 && generations[0] == "":
		return nil
	case len(generations) > 1:
		return new(outcome.Stalled(platformv1.ReasonRetainedVolumesExist, fmt.Sprintf("there are volumes of the "+
			"generations %q, and it is not recorded which have the data: set spec.data.generation of WorkloadSet %s to one "+
			"of them",
			generations, set.Name)))
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": set.UID},
		"spec": map[string]any{"data": map[string]any{"generation": generations[0]}}})
	if err == nil {
		named := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
		err = r.Client.Patch(ctx, named, client.RawPatch(types.MergePatchType, body), client.FieldOwner(facts.Owner))
	}
	if err != nil {
		return new(outcome.Failed(err))
	}
	return new(outcome.WaitingFor(recheck, platformv1.ReasonProgressing,
		fmt.Sprintf("it goes on with the volumes of generation %s", generations[0])))
}
