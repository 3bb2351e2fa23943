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
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// data does what a step asks for about the volumes of a set.
func (c *Controller) data(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
	switch {
	case wanted.Verb == opsflow.DataPrepare:
		return c.prepareData(ctx, op, seen, wanted)
	case wanted.Verb == opsflow.DataDiscard && wanted.Set == "":
		return c.discardMade(ctx, op, wanted.Generation)
	}
	set := &platformv1.WorkloadSet{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Set}, set)
	switch {
	case apierrors.IsNotFound(err) && wanted.Verb == opsflow.DataDiscard:
		return c.discardMade(ctx, op, wanted.Generation)
	case apierrors.IsNotFound(err):
		return refuse("WorkloadSet %s is gone", wanted.Set), nil
	case err != nil:
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", wanted.Set, err)
	}
	switch wanted.Verb {
	case opsflow.DataSwap:
		return c.swapData(ctx, op, set, wanted)
	case opsflow.DataOpen:
		return c.openData(ctx, set, wanted)
	case opsflow.DataReturn:
		return c.returnData(ctx, set, wanted)
	case opsflow.DataDiscard:
		return c.deleteData(ctx, set, wanted.Generation)
	case opsflow.DataDrop:
		return c.dropData(ctx, op, set, wanted)
	}
	return nil, fmt.Errorf("there is no verb %q for volumes", wanted.Verb)
}

// swapData has the pods of a set begin on the volumes that were prepared, which the first of them has all of.
func (c *Controller) swapData(ctx context.Context, op *platformv1.Operation, set *platformv1.WorkloadSet,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
	switch has := set.Spec.Generation(); {
	case has == wanted.Generation:
		return &opsflow.Answer{}, nil
	case has != wanted.Former:
		return refuse("the spec of %s asks for volumes of generation %q by now: run the Operation again", set.Name, has),
			nil
	case set.Spec.Suspend || !set.Spec.IsRunning():
		return refuse("%s is stopped or suspended by now: run the Operation again when it runs", set.Name), nil
	}
	switch why, err := c.outdated(ctx, op, wanted); {
	case err != nil:
		return nil, err
	case why != "":
		return refuse("%s; run the Operation again, without retryOf", why), nil
	}
	claims, lost, err := c.restoredClaims(ctx, set, wanted)
	if err != nil {
		return nil, err
	}
	if lost != "" {
		return refuse("%s; run the Operation again", lost), nil
	}
	for _, claim := range claims {
		if err := c.annotate(ctx, claim, platformv1.PreparedAnnotation, nil); err != nil {
			return nil, err
		}
	}
	return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Generation, Access: platformv1.DataClosed})
}

// openData leads clients to the volumes that the pods of a set have, when the first of them has those that were filled.
// Once they are led there, that is not asked any more: what they write is there alone.
func (c *Controller) openData(ctx context.Context, set *platformv1.WorkloadSet,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
	switch {
	case set.Spec.Generation() != wanted.Generation:
		return refuse("the spec of %s asks for volumes of generation %q by now, and not %q", set.Name,
			set.Spec.Generation(), wanted.Generation), nil
	case !set.Spec.IsClosed():
		return &opsflow.Answer{}, nil
	}
	_, lost, err := c.restoredClaims(ctx, set, wanted)
	if err != nil {
		return nil, err
	}
	if lost != "" {
		return refuse("%s: no client is led there", lost), nil
	}
	return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Generation})
}

// returnData has the pods of a set go back to the volumes of before. Where these are gone, or the pod is not wanted any
// more that wrote last there, all stays as it is, and no client is led anywhere.
func (c *Controller) returnData(ctx context.Context, set *platformv1.WorkloadSet,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
	switch set.Spec.Generation() {
	case wanted.Former:
		return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Former})
	case wanted.Generation:
	default:
		return refuse("the spec of %s asks for volumes of generation %q by now, and not %q", set.Name,
			set.Spec.Generation(), wanted.Generation), nil
	}
	pod := wroteOn(set, wanted.Former)
	if !set.Wants(pod) {
		// What others have may lack what it acknowledged.
		return refuse("pod %s, the last primary on the previous volumes, is not wanted any more: scale back so that pod "+
			"%s is wanted, then set spec.data.generation of WorkloadSet %s to %q and spec.data.access to Open; until then "+
			"no client is led to the restored data",
			pod, pod, set.Name, wanted.Former), nil
	}
	for _, volume := range set.Spec.Volumes {
		claim, name := &corev1.PersistentVolumeClaim{}, platformv1.ClaimNameIn(wanted.Former, volume.Name, pod)
		err := c.live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && claim.DeletionTimestamp != nil:
			return refuse("claim %s, which has the previous data, was deleted: no client is led to the restored data; set "+
				"spec.data.access of WorkloadSet %s to Open for it to go on with that", name, set.Name), nil
		case err != nil:
			return nil, fmt.Errorf("cannot read claim %q: %w", name, err)
		}
	}
	return c.pointData(ctx, set, platformv1.SetData{Generation: wanted.Former})
}

// wroteOn is the pod of a set that wrote last on the volumes of a generation; the first one where nobody is on record.
func wroteOn(set *platformv1.WorkloadSet, generation string) string {
	records := slices.Clone(set.Status.FormerPrimaries)
	if set.Status.Primary != nil {
		records = append(records, *set.Status.Primary)
	}
	for _, record := range records {
		if record.Data == generation && record.Member != nil {
			return record.Member.Name
		}
	}
	return set.FirstPod()
}

// restoredClaims are those of the first pod of a set on the volumes that were prepared; lost says which of them is not
// the one that was filled.
func (c *Controller) restoredClaims(ctx context.Context, set *platformv1.WorkloadSet, wanted *opsflow.Data) (
	claims []*corev1.PersistentVolumeClaim, lost string, err error) {
	for _, volume := range set.Spec.Volumes {
		claim, name := &corev1.PersistentVolumeClaim{}, platformv1.ClaimNameIn(wanted.Generation, volume.Name, set.FirstPod())
		err := c.live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil &&
			(claim.DeletionTimestamp != nil || wanted.Mark == "" ||
				claim.Annotations[platformv1.RestoredAnnotation] != wanted.Mark):
			return nil, fmt.Sprintf("claim %s of pod %s does not have the restored data: the instance was scaled, or somebody "+
				"deleted it", name, set.FirstPod()), nil
		case err != nil:
			return nil, "", fmt.Errorf("cannot read claim %q: %w", name, err)
		}
		claims = append(claims, claim)
	}
	return claims, "", nil
}

// pointData writes which volumes the pods of a set have, unless somebody changed the set since it was read.
func (c *Controller) pointData(ctx context.Context, set *platformv1.WorkloadSet,
	data platformv1.SetData) (*opsflow.Answer, error) {
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
		"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion},
		"spec":     map[string]any{"data": fields},
	})
	if err != nil {
		return nil, err
	}
	written := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = c.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), client.FieldOwner(owner))
	switch {
	case apierrors.IsConflict(err):
		return later("the WorkloadSet was changed at the same time"), nil
	case err != nil:
		return nil, fmt.Errorf("cannot write which volumes the pods of WorkloadSet %q have: %w", set.Name, err)
	}
	return &opsflow.Answer{}, nil
}

// deleteData deletes all volumes of a set that are of a generation which its pods do not have.
func (c *Controller) deleteData(ctx context.Context, set *platformv1.WorkloadSet,
	generation string) (*opsflow.Answer, error) {
	writer := set.Status.Primary
	if set.Spec.Generation() == generation || writer != nil && writer.Data == generation {
		return refuse("the pods of %s have the volumes of generation %q: they are kept", set.Name, generation), nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := c.live.List(ctx, &claims, client.InNamespace(set.Namespace), client.MatchingLabels{
		platformv1.ApplicationUIDLabel: set.Labels[platformv1.ApplicationUIDLabel],
		platformv1.ComponentLabel:      set.Spec.Component, platformv1.SetLabel: set.Spec.Set})
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

// discardMade deletes the volumes that an Operation made, where it did not come to note the set, or the set is gone.
// None was put in place.
func (c *Controller) discardMade(ctx context.Context, op *platformv1.Operation,
	generation string) (*opsflow.Answer, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.live.List(ctx, &claims, client.InNamespace(op.Namespace),
		client.MatchingLabels{platformv1.GenerationLabel: generation}); err != nil {
		return nil, fmt.Errorf("cannot list the volumes of generation %q: %w", generation, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Annotations[platformv1.PreparedAnnotation] != string(op.UID) || claim.DeletionTimestamp != nil {
			continue
		}
		if err := c.deleteThis(ctx, claim, claim.UID); err != nil {
			return nil, err
		}
	}
	return &opsflow.Answer{}, nil
}

// prepareData fills volumes for the first pod of a set beside those that it has, or looks how that stands. Nothing is
// made before all is known to fit.
func (c *Controller) prepareData(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
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
	found, err := c.jobs().Look(ctx, job)
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
	lost, err := c.noteRestored(ctx, op, source, job)
	if lost != "" {
		answer.Job = opsflow.JobState{Phase: platformv1.OperationFailed, Message: lost}
	}
	return answer, err
}

// beginData makes the volumes of the first pod and the Job that fills them.
func (c *Controller) beginData(ctx context.Context, op *platformv1.Operation, source *restoreSource,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
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
		case claim.DeletionTimestamp != nil:
			return later(fmt.Sprintf("claim %s was deleted, and has to be gone before it is made anew", claim.Name)), nil
		}
	}
	plan := mover.Plan{Verb: mover.VerbRestore,
		Backup: &mover.Backup{Key: source.backup.Status.Key, Digest: source.backup.Status.Digest, Stream: source.way.Part}}
	if source.backup.Spec.IsFiles() {
		plan.Files = &mover.Files{}
	}
	job, err := render.MoverInto(source.set, c.Settings.Get(), render.Mover{
		Namespace: op.Namespace, Name: wanted.Job, Domain: c.Domain, For: source.backup.UID, From: source.backup,
		Repository: source.repository, Deadline: wanted.Deadline,
		Owner: controlledBy(op),
		Plan:  plan,
	})
	if err != nil {
		return refuse("Job %q cannot be made: %v", wanted.Job, err), nil
	}
	return createJob(ctx, c.client, job)
}

// noteRestored marks the claims that have all of the data, which the Job brought: no others are ever put in place. lost
// says which of them is not there any more, or does not have it; then none is marked.
func (c *Controller) noteRestored(ctx context.Context, op *platformv1.Operation, source *restoreSource,
	job *batchv1.Job) (lost string, err error) {
	if job.Labels[platformv1.BackupLabel] != string(source.backup.UID) {
		return fmt.Sprintf("Job %s brought the data of Backup %q, and another Backup has its name by now", job.Name,
			source.backup.Name), nil
	}
	claims, filled := source.claims(), claimsOf(&job.Spec.Template.Spec)
	for _, claim := range claims {
		if !slices.Contains(filled, claim.Name) {
			return fmt.Sprintf("Job %s did not fill claim %s: another pod is the first by now", job.Name, claim.Name), nil
		}
	}
	for _, claim := range claims {
		err := c.live.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		switch {
		case apierrors.IsNotFound(err), err == nil &&
			(claim.DeletionTimestamp != nil || claim.Annotations[platformv1.PreparedAnnotation] != string(op.UID)):
			return fmt.Sprintf("claim %s was deleted while it was filled", claim.Name), nil
		case err != nil:
			return "", fmt.Errorf("cannot read claim %q: %w", claim.Name, err)
		}
	}
	for _, claim := range claims {
		if err := c.annotate(ctx, claim, platformv1.RestoredAnnotation, string(source.backup.UID)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// claimsOf are the names of the claims that a pod mounts.
func claimsOf(pod *corev1.PodSpec) []string {
	var names []string
	for _, volume := range pod.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// annotate notes something on a claim that was read; nil takes it away. One that was made anew under its name is not
// taken for it.
func (c *Controller) annotate(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string, value any) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID, "annotations": map[string]any{name: value}}})
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
		opsflow.OutputWorkloadSet: s.set.Name, opsflow.OutputFormer: former, opsflow.OutputMethod: s.backup.Spec.Method,
		opsflow.OutputRepository: s.repository.Name,
		opsflow.OutputDigest:     s.backup.Status.Digest, opsflow.OutputSize: strconv.FormatInt(s.backup.Status.RawSize, 10),
		opsflow.OutputMark: string(s.backup.UID),
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

// observeData says on which volumes the pods of a set are.
func (seen *observation) observeData(set *platformv1.WorkloadSet, pods []corev1.Pod) {
	if !seen.facts.Runs(opsflow.ChangesData) {
		return
	}
	state := opsflow.DataState{Generation: set.Spec.Generation(), Terms: map[string]int64{}}
	for _, record := range set.Status.FormerPrimaries {
		state.Terms[record.Data] = record.Term
	}
	writer := set.Status.Primary
	// Who may write is said of the volumes before a pod is made on them; a cache may yet have it the other way round.
	recorded := writer == nil || writer.Data == state.Generation
	if stalled := conditions.Get(set, platformv1.StalledCondition); stalled != nil &&
		stalled.Status == metav1.ConditionTrue &&
		stalled.Reason == platformv1.ReasonInvalidSpec && stalled.ObservedGeneration == set.Generation {
		state.InvalidGeneration = stalled.Message
	}
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
		if !recorded || said.Presence != opsflow.PodRunning || said.Report.Health != report.Healthy {
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
