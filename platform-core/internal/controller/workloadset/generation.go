// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// observeGeneration says whether the pods, or the record of who may write, are of other volumes than those that the spec asks for. Then nothing
// begins: two writers on different data would be the end of both.
func (f *facts) observeGeneration(set *platformv1.WorkloadSet) {
	f.moves = f.writer != nil && f.writer.Data != set.Spec.Generation()
	for _, pod := range f.pods {
		f.moves = f.moves || !render.OnVolumesOf(set, pod)
	}
	if f.moves && f.rollout.Mode == rollout.Running {
		f.rollout.Mode = rollout.Stopped
	}
}

// moving says how far the pods are on their way to other volumes.
func moving(set *platformv1.WorkloadSet, f *facts) outcome.Outcome {
	to := "the volumes that it was made with"
	if set.Spec.Generation() != "" {
		to = fmt.Sprintf("the volumes of generation %s", set.Spec.Generation())
	}
	return outcome.Waiting(platformv1.ReasonRestoring, fmt.Sprintf("its pods go to %s: %d have to end before", to, len(f.rollout.Pods)))
}

// tendGeneration has the record of who may write be of the volumes that the pods are to have, before one is made on them. It returns nil where
// nothing is to be done about that.
func (c *Controller) tendGeneration(ctx context.Context, set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	if set.Spec.Suspend {
		return nil
	}
	if set.Spec.Data == nil {
		if o := c.findGeneration(ctx, set, f); o != nil {
			return o
		}
	}
	switch {
	case !f.moves:
		return nil
	case !begun(set, f):
		// New ones would be empty.
		return new(outcome.Stalled(platformv1.ReasonInvalidSpec, fmt.Sprintf("data.generation is %q, and there are no volumes of that for the first pod: the pods stay with those that they have; set it to what it was",
			set.Spec.Generation())))
	case len(f.pods) > 0 || f.writer == nil || f.writer.Data == set.Spec.Generation():
		return nil
	}
	// What the cache does not show any more may be there all the same.
	if err := c.observePods(ctx, c.live, set, f); err != nil {
		return new(outcome.Failed(err))
	}
	if len(f.pods) > 0 {
		return nil
	}
	return new(c.takeUpGeneration(ctx, set))
}

// begun says whether the first pod has all its volumes of the generation that the spec names.
func begun(set *platformv1.WorkloadSet, f *facts) bool {
	if len(set.Spec.Ordinals()) == 0 {
		return false
	}
	for _, volume := range set.Spec.Volumes {
		if claim := f.claims[set.Spec.ClaimNameFor(volume.Name, firstPod(set))]; claim == nil || !ours(set, claim) || claim.DeletionTimestamp != nil {
			return false
		}
	}
	return true
}

// takeUpGeneration writes a record of who may write on other volumes, in a later term than any before: the one of the last time that the pods had
// them, and else one that names nobody. No pod of the set is there.
func (c *Controller) takeUpGeneration(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	live := &platformv1.WorkloadSet{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(set), live); err != nil {
		return outcome.Failed(err)
	}
	generation, present := live.Spec.Generation(), live.Status.Writer
	again := outcome.WaitingFor(turnRetry, platformv1.ReasonRestoring, "its pods are about to begin on other volumes")
	if live.UID != set.UID || generation != set.Spec.Generation() || present == nil || present.Data == generation {
		return again
	}
	next := recordFor(generation, present, live.Status.FormerWriter)
	if next.Primary != nil {
		next.Since = &metav1.Time{Time: c.Now()}
	}
	// A record is replaced as a whole, by who has read what is there.
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	body, err := json.Marshal([]operation{
		{"replace", "/metadata/uid", live.UID}, {"replace", "/metadata/resourceVersion", live.ResourceVersion},
		{"add", "/status/writer", next}, {"add", "/status/formerWriter", present},
	})
	if err != nil {
		return outcome.Failed(err)
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	if err := c.client.Status().Patch(ctx, written, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(owner)); err != nil {
		return outcome.Failed(err)
	}
	c.writers.forget(client.ObjectKeyFromObject(set))
	c.events.Normal(set, "VolumesChanged", "Its pods begin on other volumes, in term %d: generation %q in place of %q.", next.Term, generation, present.Data)
	return again
}

// recordFor is the record that follows the present one when pods go to another generation of volumes.
func recordFor(generation string, present, former *platformv1.WriterRecord) *platformv1.WriterRecord {
	if former == nil || former.Data != generation {
		founded := recordOf(present).Refound()
		return &platformv1.WriterRecord{Term: founded.Term, List: storedList(founded.List), Data: generation, Changes: present.Changes}
	}
	next := former.DeepCopy()
	next.Term, next.Changes = max(present.Term, former.Term)+1, present.Changes
	return next
}

// findGeneration is for a set that was made anew beside volumes of an earlier one, which a restore had given it: it goes on with those, and says so
// in its spec. Where there are several it is for a person to say which.
func (c *Controller) findGeneration(ctx context.Context, set *platformv1.WorkloadSet, f *facts) *outcome.Outcome {
	if f.writer != nil || len(f.pods) > 0 || len(f.rollout.Ordinals()) == 0 {
		return nil
	}
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.claims)) {
		claim := f.claims[name]
		generation := claim.Labels[platformv1.GenerationLabel]
		theirs := claim.Labels[platformv1.ApplicationUIDLabel]
		switch {
		case claim.DeletionTimestamp != nil || claim.Annotations[platformv1.PreparedAnnotation] != "":
		case ours(set, claim), theirs != "" && theirs == set.Spec.AdoptVolumes:
			found[generation] = true
		case generation != "":
			// It is as much in the way as one under the name of ours.
			if r := accept.Adoption(&set.Spec, set.Spec.Ordinals()[0], claim); r != nil {
				return new(outcome.Stalled(r.Reason, r.Message))
			}
		}
	}
	generations := slices.Sorted(maps.Keys(found))
	switch {
	case len(generations) == 0, len(generations) == 1 && generations[0] == "":
		return nil
	case len(generations) > 1:
		return new(outcome.Stalled(platformv1.ReasonRetainedVolumesExist, fmt.Sprintf("there are volumes of the generations %q, and nobody says which have the data: set spec.data.generation of WorkloadSet %s to one of them",
			generations, set.Name)))
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": set.UID}, "spec": map[string]any{"data": map[string]any{"generation": generations[0]}}})
	if err == nil {
		named := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
		err = c.client.Patch(ctx, named, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	}
	if err != nil {
		return new(outcome.Failed(err))
	}
	return new(outcome.WaitingFor(turnRetry, platformv1.ReasonProgressing, fmt.Sprintf("it goes on with the volumes of generation %s", generations[0])))
}
