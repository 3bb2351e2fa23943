// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/internal/stores"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

const (
	// shortestRestore and longestRestore are how long one attempt may take at least and at most, whatever the Backup says
	// of itself.
	shortestRestore, longestRestore = 24 * time.Hour, 90 * 24 * time.Hour
	// slowness is how many times as long as the Backup took a restore may take, and slowest how many bytes a second it
	// carries at least.
	slowness, slowest = 10, 1 << 20
	// restoreRetry is the wait after the first attempt that failed; each further one is twice as long, up to
	// longestRestoreRetry.
	restoreRetry        = 5 * time.Second
	longestRestoreRetry = 10 * time.Minute
	// restoreLook is how often a mover that runs is looked at: why its pod does not start is said by no watch.
	restoreLook = time.Minute
	// longestReason is how many characters of what a mover said are shown.
	longestReason = 400
)

// awaitsData says whether no pod is made yet since the data is to be there first. A set that has a pod, or had a
// primary, is complete.
func awaitsData(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	return set.Spec.Restore != nil && !set.Spec.Restore.ToServers() && !set.Status.Restore.Done() &&
		f.Mode == rollout.Running && len(f.Pods) == 0 &&
		set.Status.Primary == nil && set.Spec.Generation() == "" && len(set.Spec.Ordinals()) > 0
}

// Restore has the volumes of the first pod filled before any pod is made. It returns nil once that is on record, and
// where there is nothing to do.
func (r *Reconciler) Restore(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) (*facts.Facts,
	*outcome.Outcome) {
	if !awaitsData(set, f) && !lostPart(set, f) {
		return f, nil
	}
	if set.Status.Restore.Done() {
		// A claim that the cache does not show, or without its mark, is no proof that the data is lost.
		fresh, err := r.LiveClaims(ctx, set, f)
		if err != nil {
			return f, new(outcome.Failed(err))
		}
		if f = fresh; !lostPart(set, f) {
			return f, nil
		}
	}
	o := r.Advance(ctx, set, f)
	if o.Kind() == outcome.KindDone {
		// That it is there is on record before there is a pod, after which nobody would look.
		o = outcome.Waiting(platformv1.ReasonRestoring,
			fmt.Sprintf("the data is on the volume of pod %s, which is about to be made", set.FirstPod()))
	}
	return f, &o
}

// awaitsObjects says whether servers that run are to be given what they begin with.
func awaitsObjects(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	return set.Spec.Restore != nil && set.Spec.Restore.ToServers() && !set.Status.Restore.Done() &&
		f.Mode == rollout.Running && len(set.Spec.Ordinals()) > 0
}

// Advance brings a restore on by one step, and says in the status how far it is.
func (r *Reconciler) Advance(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) outcome.Outcome {
	state := begun(set, f)
	if err := r.noteSize(ctx, set, state); err != nil {
		return outcome.Failed(err)
	}
	o := r.fill(ctx, set, f, state)
	set.Status.Restore = state
	if state.Done() {
		r.Events.Normal(set, platformv1.ReasonRestored, "The data of Backup %s is %s.", set.Spec.Restore.From.Backup,
			filledPlace(set))
	}
	reportRestore(set, o)
	return o
}

// filledPlace is where the data is when all of it is there.
func filledPlace(set *platformv1.WorkloadSet) string {
	if set.Spec.Restore.ToServers() {
		return "in the servers"
	}
	return "on the volume of the first pod"
}

// targetPlace is where it is going.
func targetPlace(set *platformv1.WorkloadSet) string {
	if set.Spec.Restore.ToServers() {
		return "into the servers"
	}
	return "to the volume of pod " + set.FirstPod()
}

// noteSize notes what is restored, also where the status of the reconcile that began with it was not written.
func (r *Reconciler) noteSize(ctx context.Context, set *platformv1.WorkloadSet, state *platformv1.RestoreState) error {
	if state.Digest != "" {
		return nil
	}
	backup := &platformv1.Backup{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: set.Spec.Restore.From.Backup}, backup)
	if err == nil && backup.UID == set.Spec.Restore.From.UID {
		state.Size, state.Digest = backup.Status.RawSize, backup.Status.Digest
		for _, source := range backup.Status.Sources {
			if source.Set == set.Spec.Restore.Part {
				state.Size = source.RawSize
			}
		}
	}
	return client.IgnoreNotFound(err)
}

// reportRestore says in a condition how far it is.
func reportRestore(set *platformv1.WorkloadSet, o outcome.Outcome) {
	state := set.Status.Restore
	condition := metav1.Condition{Type: platformv1.RestoredCondition, Status: metav1.ConditionFalse,
		Reason: cmp.Or(o.Reason(), platformv1.ReasonRestoring), Message: o.Message()}
	if state.Done() {
		condition.Status, condition.Reason = metav1.ConditionTrue, platformv1.ReasonRestored
		condition.Message = fmt.Sprintf("it began with the %s of Backup %q", bytesOf(state.Size),
			set.Spec.Restore.From.Backup)
		if target := set.Spec.Restore.From.Target; target != nil {
			condition.Message += ", and what was committed since until " + target.Time
		}
	}
	conditions.Set(set, condition)
}

// fill brings a restore on by one step.
func (r *Reconciler) fill(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	state *platformv1.RestoreState) outcome.Outcome {
	if filled(set, f) {
		state.CompletionTime = &metav1.Time{Time: f.Now}
		return outcome.Done()
	}
	if state.Final {
		return failedFor(set, state)
	}
	job := &batchv1.Job{}
	err := livereader.Reader{Cached: r.Client, Live: r.Live}.Get(ctx,
		client.ObjectKey{Namespace: set.Namespace, Name: restoreName(set, state)}, job)
	if apierrors.IsNotFound(err) {
		return r.beginFill(ctx, set, f, state)
	}
	if err != nil {
		return outcome.Failed(err)
	}
	if !metav1.IsControlledBy(job, set) {
		return outcome.Stalled(platformv1.ReasonNameTaken, fmt.Sprintf("Job %q is somebody else's: delete it", job.Name))
	}
	at, err := jobstate.Jobs{Live: r.Live, Client: r.Client, Now: r.Now}.Look(ctx, job)
	if err != nil {
		return outcome.Failed(err)
	}
	switch result := at.Result(); {
	case at.Phase == platformv1.OperationRunning:
		said := ""
		if at.Message != "" {
			said = ": " + jobstate.Tail(at.Message, longestReason)
		}
		return outcome.WaitingFor(restoreLook, platformv1.ReasonRestoring,
			fmt.Sprintf("the data of Backup %q, %s, is on its way %s%s",
				set.Spec.Restore.From.Backup, bytesOf(state.Size), targetPlace(set), said))
	case result.Reason != "":
		return r.retryFill(set, f, state, result)
	}
	lost, err := r.noteFilled(ctx, set, f)
	switch {
	case err != nil:
		return outcome.Failed(err)
	case lost != "":
		return r.retryFill(set, f, state, mover.Result{Reason: mover.ReasonTargetFailed, Message: lost})
	}
	state.CompletionTime, state.RetryTime, state.Message, state.Reason = &metav1.Time{Time: f.Now}, nil, "", ""
	return outcome.Done()
}

// beginFill makes the Job of an attempt when its time has come and all is there that it needs.
func (r *Reconciler) beginFill(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	state *platformv1.RestoreState) outcome.Outcome {
	if state.RetryTime != nil && f.Now.Before(state.RetryTime.Time) {
		return failedFor(set, state).Within(state.RetryTime.Sub(f.Now))
	}
	from := set.Spec.Restore.From
	no := func(format string, args ...any) outcome.Outcome {
		return outcome.StalledFor(longestRestoreRetry, platformv1.ReasonRestoreFailed, fmt.Sprintf(format, args...))
	}
	backup := &platformv1.Backup{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: from.Backup}, backup)
	switch {
	case apierrors.IsNotFound(err), err == nil &&
		(backup.UID != from.UID || backup.Status.Phase != platformv1.BackupCompleted || !backup.DeletionTimestamp.IsZero()):
		return no("Backup %q was deleted before its data was here: delete this object, and make it anew from another one",
			from.Backup)
	case err != nil:
		return outcome.Failed(err)
	}
	if backup.Spec.IsSnapshot() {
		f, o := r.makeFromSnapshots(ctx, set, f, backup)
		if o.Kind() != outcome.KindDone {
			return o
		}
		return r.beginMover(ctx, set, f, state, backup, nil)
	}
	repository := &platformv1.BackupRepository{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: backup.Spec.RepositoryRef.Name}, repository)
	if apierrors.IsNotFound(err) {
		return no("there is no BackupRepository %q, which Backup %q is kept in: create it again",
			backup.Spec.RepositoryRef.Name, from.Backup)
	}
	if err != nil {
		return outcome.Failed(err)
	}
	missing, err := stores.Missing(ctx, r.Live, repository)
	if err != nil {
		return outcome.Failed(err)
	}
	if missing.Message != "" {
		return outcome.StalledFor(time.Minute, platformv1.ReasonRestoreFailed, missing.Message)
	}
	if lacks, err := r.lacksForTarget(ctx, set); err != nil || lacks != "" {
		if err != nil {
			return outcome.Failed(err)
		}
		return outcome.StalledFor(time.Minute, platformv1.ReasonRestoreFailed, lacks)
	}
	return r.beginMover(ctx, set, f, state, backup, repository)
}

// beginMover makes the Job of an attempt, where the data is on volumes with the claims of the first pod. Without a
// repository the data is on the volume by now.
func (r *Reconciler) beginMover(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts,
	state *platformv1.RestoreState, backup *platformv1.Backup, repository *platformv1.BackupRepository) outcome.Outcome {
	way := render.MoverThrough
	if !set.Spec.Restore.ToServers() {
		way = render.MoverInto
		if o := r.Provide(ctx, set, f, set.Spec.Ordinals()[0]); o.Kind() != outcome.KindDone {
			return o
		}
	}
	plan := mover.Plan{Verb: mover.VerbRestore,
		Backup: &mover.Backup{Key: backup.Status.Key, Digest: backup.Status.Digest, Stream: set.Spec.Restore.Part}}
	if repository == nil {
		plan = mover.Plan{Verb: mover.VerbAdopt, Known: backup.Status.Facts}
	}
	if backup.Spec.IsFiles() {
		plan.Files = &mover.Files{}
	}
	job, err := way(set, r.Settings.Get(), render.Mover{
		Namespace: set.Namespace, Name: restoreName(set, state), Domain: set.Labels[platformv1.DomainLabel], For: backup.UID,
		From: backup, Repository: repository, Deadline: restoreDeadline(backup, set.Spec.Restore.From.Target),
		Owner: *metav1.NewControllerRef(set, platformv1.GroupVersion.WithKind("WorkloadSet")),
		Plan:  plan,
	})
	if err != nil {
		return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
	}
	err = r.Client.Create(ctx, job, client.FieldOwner(facts.Owner))
	switch {
	case apierrors.IsAlreadyExists(err), err == nil:
		return outcome.Waiting(platformv1.ReasonRestoring,
			fmt.Sprintf("the data of Backup %q, %s, is about to be on its way %s", backup.Name, bytesOf(state.Size),
				targetPlace(set)))
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return outcome.StalledFor(time.Minute, platformv1.ReasonRestoreFailed,
			fmt.Sprintf("the Job that restores cannot be made, and is tried again every minute: %v; remove what refuses it",
				err))
	}
	return outcome.Failed(err)
}

// restoreDeadline is how long one attempt may take. One that it ends begins anew, so that it is longer than any that
// still gets somewhere: ten times as long as the Backup took, or what its size takes where all is slow, since a Backup
// may have carried only what was new. To a point in time there is the log to replay as well, as long as it took to be
// written at most. Snapshots are on the volume by then.
func restoreDeadline(backup *platformv1.Backup, target *platformv1.RestoreTarget) time.Duration {
	seconds := shortestRestore.Seconds()
	if took := backup.Status.Duration; took != nil {
		seconds = max(seconds, slowness*took.Seconds())
	}
	if !backup.Spec.IsSnapshot() {
		seconds = max(seconds, float64(backup.Status.RawSize)/slowest)
	}
	if whole := backup.Status.CompletionTime; whole != nil && target != nil {
		if moment, err := target.Moment(); err == nil {
			seconds += max(0, moment.Sub(whole.Time).Seconds())
		}
	}
	return time.Duration(min(seconds, longestRestore.Seconds())) * time.Second
}

// retryFill notes that an attempt failed, and when the next one begins.
func (r *Reconciler) retryFill(set *platformv1.WorkloadSet, f *facts.Facts, state *platformv1.RestoreState,
	result mover.Result) outcome.Outcome {
	state.Message, state.Reason = result.Reason+": "+jobstate.Tail(result.Message, longestReason), ""
	switch result.Reason {
	case mover.ReasonOutOfRange, mover.ReasonDamaged, mover.ReasonNotFound:
		state.Reason = result.Reason
	}
	r.Events.Warning(set, platformv1.ReasonRestoreFailed, "Attempt %d: %s.", state.Attempt, state.Message)
	if jobstate.IsFinal(result.Reason) {
		state.Final = true
		return failedFor(set, state)
	}
	wait := longestRestoreRetry
	if n := state.Attempt - 1; n < 7 {
		wait = min(longestRestoreRetry, restoreRetry<<n)
	}
	state.Attempt++
	state.RetryTime = &metav1.Time{Time: f.Now.Add(wait).Truncate(time.Second).Add(time.Second)}
	return failedFor(set, state).Within(state.RetryTime.Sub(f.Now))
}

func failedFor(set *platformv1.WorkloadSet, state *platformv1.RestoreState) outcome.Outcome {
	text := fmt.Sprintf("the data of Backup %q is not here: %s", set.Spec.Restore.From.Backup, state.Message)
	if state.Final {
		return outcome.Stalled(platformv1.ReasonRestoreFailed, text+
			". It is not tried again: delete this object, and make it anew from another backup")
	}
	return outcome.Waiting(cmp.Or(state.Reason, platformv1.ReasonRestoreFailed),
		fmt.Sprintf("%s. Attempt %d follows", text, state.Attempt))
}

// filled says whether a claim of the first pod is marked as having the data: the mark comes last, and outlives the set.
// One that is being deleted takes the data along.
func filled(set *platformv1.WorkloadSet, f *facts.Facts) bool {
	for _, volume := range set.Spec.Volumes {
		claim := f.Claims[set.Spec.ClaimNameFor(volume.Name, set.FirstPod())]
		if claim != nil && claim.DeletionTimestamp == nil && facts.Ours(set, claim) &&
			claim.Annotations[platformv1.RestoredAnnotation] == string(set.Spec.Restore.From.UID) {
			return true
		}
	}
	return false
}

// noteFilled marks the claims of the first pod, or says which of them went while data was written to it: the pod would
// begin with an empty one.
func (r *Reconciler) noteFilled(ctx context.Context, set *platformv1.WorkloadSet, f *facts.Facts) (lost string,
	err error) {
	if f, err = r.LiveClaims(ctx, set, f); err != nil {
		return "", err
	}
	var claims []*corev1.PersistentVolumeClaim
	for _, volume := range set.Spec.Volumes {
		name := set.Spec.ClaimNameFor(volume.Name, set.FirstPod())
		claim := f.Claims[name]
		switch {
		case claim != nil && claim.DeletionTimestamp == nil && facts.Ours(set, claim):
			claims = append(claims, claim)
		case !set.Spec.Restore.ToServers():
			return fmt.Sprintf("claim %s was deleted while data was written to it", name), nil
		}
	}
	for _, claim := range claims {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID,
			"annotations": map[string]string{platformv1.RestoredAnnotation: string(set.Spec.Restore.From.UID)}}})
		if err != nil {
			return "", err
		}
		err = r.Client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, body), client.FieldOwner(facts.Owner))
		if err != nil {
			return "", fmt.Errorf("cannot note that claim %q has the data: %w", claim.Name, err)
		}
	}
	return "", nil
}

func restoreName(set *platformv1.WorkloadSet, state *platformv1.RestoreState) string {
	return fmt.Sprintf("restore-%s-%d", set.UID, state.Attempt)
}

func bytesOf(size int64) string {
	return resource.NewQuantity(size, resource.BinarySI).String() + " bytes"
}
