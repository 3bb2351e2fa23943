// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

// data does what a step asks for about the volumes of a set.
func (c *Controller) data(ctx context.Context, op *platformv1.Operation, seen *observation, wanted *opsflow.Data) (*opsflow.Answer, error) {
	if wanted.Verb == opsflow.DataPrepare {
		return c.prepareData(ctx, op, seen, wanted)
	}
	set := &platformv1.WorkloadSet{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Set}, set)
	if apierrors.IsNotFound(err) {
		return refuse("WorkloadSet %s is gone", wanted.Set), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Set, err)
	}
	has := set.Spec.Generation()
	switch wanted.Verb {
	case opsflow.DataSwap:
		return c.swapData(ctx, set, wanted)
	case opsflow.DataOpen:
		if has != wanted.Generation {
			return refuse("the pods of %s are to have volumes of generation %q by now, and not %q", set.Name, has, wanted.Generation), nil
		}
		return c.pointData(ctx, set, platformv1.SetData{Generation: has})
	case opsflow.DataReturn:
		if has != wanted.Generation && has != wanted.Former {
			return refuse("the pods of %s are to have volumes of generation %q by now, and not %q", set.Name, has, wanted.Generation), nil
		}
		return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Former})
	case opsflow.DataDiscard:
		return c.deleteData(ctx, set, wanted.Generation)
	case opsflow.DataDrop:
		if has != wanted.Generation || set.Spec.IsClosed() {
			return refuse("the pods of %s are to have volumes of generation %q by now: the volumes of before are kept", set.Name, has), nil
		}
		return c.deleteData(ctx, set, wanted.Former)
	}
	return nil, fmt.Errorf("there is no verb %q for volumes", wanted.Verb)
}

// swapData has the pods of a set begin on the volumes that were prepared, which the first of them has all of.
func (c *Controller) swapData(ctx context.Context, set *platformv1.WorkloadSet, wanted *opsflow.Data) (*opsflow.Answer, error) {
	switch has := set.Spec.Generation(); {
	case has == wanted.Generation:
		return &opsflow.Answer{}, nil
	case has != wanted.Former:
		return refuse("the pods of %s are to have volumes of generation %q by now: run the Operation again", set.Name, has), nil
	case set.Spec.Suspend || !set.Spec.IsRunning():
		return refuse("%s is stopped or suspended by now: run the Operation again when it runs", set.Name), nil
	}
	for _, volume := range set.Spec.Volumes {
		claim, name := &corev1.PersistentVolumeClaim{}, platformv1.ClaimNameIn(wanted.Generation, volume.Name, firstPod(set))
		err := c.live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && (claim.DeletionTimestamp != nil || claim.Annotations[platformv1.RestoredAnnotation] == ""):
			return refuse("claim %s of pod %s does not have the restored data: the instance was scaled, or somebody deleted it; run the Operation again", name, firstPod(set)), nil
		case err != nil:
			return nil, fmt.Errorf("cannot read claim %q: %w", name, err)
		}
		if err := c.annotate(ctx, claim, platformv1.PreparedAnnotation, nil); err != nil {
			return nil, err
		}
	}
	return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Generation, Access: platformv1.DataClosed})
}

// pointData writes which volumes the pods of a set have, unless somebody changed the set since it was read.
func (c *Controller) pointData(ctx context.Context, set *platformv1.WorkloadSet, data platformv1.SetData) (*opsflow.Answer, error) {
	if present := set.Spec.Data; present == nil && data == (platformv1.SetData{}) || present != nil && *present == data {
		return &opsflow.Answer{}, nil
	}
	fields := map[string]any{"generation": nil, "access": nil}
	if data.Generation != "" {
		fields["generation"] = data.Generation
	}
	if data.Access != "" {
		fields["access"] = data.Access
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion}, "spec": map[string]any{"data": fields},
	})
	if err != nil {
		return nil, err
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = c.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	switch {
	case apierrors.IsConflict(err):
		return later("somebody else changed the set at the same time"), nil
	case err != nil:
		return nil, fmt.Errorf("cannot write which volumes the pods of WorkloadSet %q have: %w", set.Name, err)
	}
	return &opsflow.Answer{}, nil
}

// deleteData deletes all volumes of a set that are of a generation which its pods do not have.
func (c *Controller) deleteData(ctx context.Context, set *platformv1.WorkloadSet, generation string) (*opsflow.Answer, error) {
	if set.Spec.Generation() == generation {
		return refuse("the pods of %s have the volumes of generation %q: they are kept", set.Name, generation), nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := c.live.List(ctx, &claims, client.InNamespace(set.Namespace), client.MatchingLabels{
		platformv1.ApplicationUIDLabel: set.Labels[platformv1.ApplicationUIDLabel], platformv1.ComponentLabel: set.Spec.Component, platformv1.SetLabel: set.Spec.Set})
	if err != nil {
		return nil, fmt.Errorf("cannot list the volumes of WorkloadSet %q: %w", set.Name, err)
	}
	deleted := 0
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Labels[platformv1.GenerationLabel] != generation || claim.DeletionTimestamp != nil {
			continue
		}
		if err := c.deleteThis(ctx, claim, claim.UID); err != nil {
			return nil, err
		}
		deleted++
	}
	return &opsflow.Answer{Outputs: map[string]string{"deleted": strconv.Itoa(deleted)}}, nil
}

// prepareData fills volumes for the first pod of a set beside those that it has, or looks how that stands. Nothing is made before all is known to fit.
func (c *Controller) prepareData(ctx context.Context, op *platformv1.Operation, seen *observation, wanted *opsflow.Data) (*opsflow.Answer, error) {
	source, refusal, err := c.restorable(ctx, op, seen, wanted.Backup)
	if refusal != nil || err != nil {
		return refusal, err
	}
	former := source.set.Spec.Generation()
	source.set.Spec.Data, source.set.Spec.Restore = &platformv1.SetData{Generation: wanted.Generation}, source.way
	answer := &opsflow.Answer{Outputs: source.outputs(former)}
	job := &batchv1.Job{}
	err = c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Job}, job)
	switch {
	case apierrors.IsNotFound(err):
		if refusal, err := c.beginData(ctx, op, source, wanted); refusal != nil || err != nil {
			return refusal, err
		}
		answer.Job.Phase = platformv1.OperationRunning
		return answer, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Job %q: %w", wanted.Job, err)
	case !metav1.IsControlledBy(job, op):
		return refuse("there is a Job %q that is not of this Operation: delete it", wanted.Job), nil
	}
	found, err := jobstate.Of(ctx, c.live, job)
	if err != nil {
		return nil, err
	}
	answer.Job = opsflow.JobState{Phase: found.Phase, Message: found.Message}
	if found.Phase == platformv1.OperationRunning {
		return answer, nil
	}
	if result := found.Result(); result.Reason != "" {
		answer.Job = opsflow.JobState{Phase: platformv1.OperationFailed, Message: result.Reason + ": " + result.Message}
		if jobstate.IsFinal(result.Reason) {
			answer.Reason = result.Reason
		}
		return answer, nil
	}
	return answer, c.noteRestored(ctx, source)
}

// beginData makes the volumes of the first pod and the Job that fills them.
func (c *Controller) beginData(ctx context.Context, op *platformv1.Operation, source *restoreSource, wanted *opsflow.Data) (*opsflow.Answer, error) {
	for _, claim := range source.claims() {
		claim.Annotations[platformv1.PreparedAnnotation] = string(op.UID)
		err := c.client.Create(ctx, claim, client.FieldOwner(owner))
		if apierrors.IsAlreadyExists(err) {
			err = c.live.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		}
		switch {
		case refused(err):
			return refuse("claim %s for the restored data cannot be made: %v", claim.Name, err), nil
		case err != nil:
			return nil, fmt.Errorf("cannot make claim %q: %w", claim.Name, err)
		case claim.Annotations[platformv1.PreparedAnnotation] != string(op.UID):
			return refuse("there is a claim %s that is not of this Operation: run another one", claim.Name), nil
		}
	}
	job, err := render.MoverInto(source.set, render.Mover{
		Namespace: op.Namespace, Name: wanted.Job, Domain: c.Domain, For: source.backup.UID, Repository: source.repository, Deadline: wanted.Deadline,
		Owner: metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Operation", Name: op.Name, UID: op.UID, Controller: new(true)},
		Plan:  mover.Plan{Verb: mover.VerbRestore, Backup: &mover.Backup{Key: source.backup.Status.Key, Digest: source.backup.Status.Digest}},
	})
	if err != nil {
		return refuse("Job %q cannot be made: %v", wanted.Job, err), nil
	}
	err = c.client.Create(ctx, job, client.FieldOwner(owner))
	switch {
	case refused(err):
		return refuse("Job %q cannot be made: %v", wanted.Job, err), nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("cannot make Job %q: %w", wanted.Job, err)
	}
	return nil, nil
}

// noteRestored marks the claims that have all of the data: no others are ever put in place.
func (c *Controller) noteRestored(ctx context.Context, source *restoreSource) error {
	for _, claim := range source.claims() {
		if err := c.annotate(ctx, claim, platformv1.RestoredAnnotation, string(source.backup.UID)); err != nil {
			return err
		}
	}
	return nil
}

// annotate notes something on a claim; nil takes it away.
func (c *Controller) annotate(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string, value any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
	if err == nil {
		err = c.client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	}
	if err != nil {
		return fmt.Errorf("cannot note on claim %q how it stands with its data: %w", claim.Name, err)
	}
	return nil
}

// restoreSource is a Backup that fits, and the set that is to have its data.
type restoreSource struct {
	backup     *platformv1.Backup
	repository *platformv1.BackupRepository
	set        *platformv1.WorkloadSet
	// way in which the volumes are filled.
	way *platformv1.SetRestore
}

// outputs are what later steps and people go by.
func (s *restoreSource) outputs(former string) map[string]string {
	return map[string]string{
		opsflow.OutputWorkloadSet: s.set.Name, opsflow.OutputFormer: former, opsflow.OutputMethod: s.backup.Spec.Method, opsflow.OutputRepository: s.repository.Name,
		opsflow.OutputDigest: s.backup.Status.Digest, opsflow.OutputSize: strconv.FormatInt(s.backup.Status.RawSize, 10),
	}
}

// claims are those of the first pod, in the generation that is filled.
func (s *restoreSource) claims() []*corev1.PersistentVolumeClaim {
	claims := make([]*corev1.PersistentVolumeClaim, 0, len(s.set.Spec.Volumes))
	for _, volume := range s.set.Spec.Volumes {
		claims = append(claims, accept.Claim(s.set, s.set.Spec.Ordinals()[0], volume))
	}
	return claims
}

func firstPod(set *platformv1.WorkloadSet) string {
	ordinals := set.Spec.Ordinals()
	if len(ordinals) == 0 {
		return ""
	}
	return platformv1.PodNameFor(set.Name, ordinals[0])
}

// observeData says on which volumes the pods of a set are.
func (seen *observation) observeData(set *platformv1.WorkloadSet, pods []corev1.Pod) {
	if !opsflow.ChangesData(seen.facts.Template) {
		return
	}
	state := opsflow.DataState{Generation: set.Spec.Generation()}
	if ready := conditionOf(set.Status.Conditions, platformv1.ReadyCondition); ready.Status != metav1.ConditionTrue {
		state.Message = ready.Message
	}
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		if !render.OnVolumesOf(set, pod) {
			state.Elsewhere++
			continue
		}
		said := factsOf(set, 0, pod.Name, pod)
		if said.Presence != opsflow.PodRunning || said.Report.Health != report.Healthy {
			continue
		}
		if slices.ContainsFunc(set.Spec.Roles, func(r platformv1.SetRole) bool {
			return r.Name == said.Report.Role && r.Access == platformv1.RoleReadWrite
		}) {
			state.Writes = pod.Name
			if said.Access == platformv1.RoleReadWrite {
				state.Serves = pod.Name
			}
		}
	}
	if seen.facts.Data == nil {
		seen.facts.Data = map[string]opsflow.DataState{}
	}
	seen.facts.Data[set.Name] = state
}
