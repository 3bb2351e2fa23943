// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

const (
	// discardTimeout is how long a Job may take that removes artifacts.
	discardTimeout = 30 * time.Minute
	// discardPoll is after how long a Job that runs is looked at again, and discardRetry after how long one that failed is
	// made again.
	discardPoll  = 2 * time.Second
	discardRetry = 5 * time.Minute
	// discardKept is how long a Job stays that has ended.
	discardKept = time.Hour
)

// delete removes the artifacts of an Operation that is being deleted, and lets it go. A run ends first: nothing may
// write artifacts any more.
func (c *Controller) delete(ctx context.Context, cached *platformv1.Operation) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(cached, platformv1.ArtifactsFinalizer) {
		return reconcile.Result{}, nil
	}
	if !opsflow.Finished(cached) {
		return c.carryOut(ctx, cached, nil, opsflow.Delete(cached, c.Now()))
	}
	op := &platformv1.Operation{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(cached), op); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if op.UID != cached.UID {
		return reconcile.Result{}, nil
	}
	if working, err := c.stopTasks(ctx, op, nil); working || err != nil {
		return reconcile.Result{RequeueAfter: discardPoll}, err
	}
	shared, err := c.sharesArtifacts(ctx, op)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case shared || op.Status.Artifacts == nil:
		return reconcile.Result{}, c.release(ctx, op)
	}
	return c.discard(ctx, op)
}

// stopTasks ends the Jobs of an Operation that run and have some labels, and says whether there are any.
func (c *Controller) stopTasks(ctx context.Context, op *platformv1.Operation,
	labelled client.MatchingLabels) (working bool, err error) {
	var list batchv1.JobList
	named := client.MatchingLabels{
		platformv1.OperationLabel: platformv1.DerivedName(platformv1.MaxLabelValue, op.Name)}
	maps.Copy(named, labelled)
	if err := c.live.List(ctx, &list, client.InNamespace(op.Namespace), named); err != nil {
		return false, fmt.Errorf("cannot list the Jobs of Operation %q: %w", op.Name, err)
	}
	for i := range list.Items {
		job := &list.Items[i]
		if !metav1.IsControlledBy(job, op) || jobstate.Ended(job) {
			continue
		}
		working = true
		err := c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
			client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("cannot delete Job %q: %w", job.Name, err)
		}
	}
	return working, nil
}

// sharesArtifacts says whether another Operation, which tried this one again or the other way round, has the same
// folder and stays. The last one removes it.
func (c *Controller) sharesArtifacts(ctx context.Context, op *platformv1.Operation) (bool, error) {
	if op.Status.Artifacts == nil {
		return false, nil
	}
	var list platformv1.OperationList
	if err := c.client.List(ctx, &list, client.InNamespace(op.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("cannot list Operations: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != op.UID && other.DeletionTimestamp.IsZero() && other.Status.Artifacts != nil &&
			*other.Status.Artifacts == *op.Status.Artifacts {
			return true, nil
		}
	}
	return false, nil
}

// discard has a Job remove the artifacts of an Operation, which goes when that is done. A store that is away is tried
// again; a repository that is gone, and a namespace that goes, leave what is there.
func (c *Controller) discard(ctx context.Context, op *platformv1.Operation) (reconcile.Result, error) {
	place := op.Status.Artifacts
	r, err := c.repositoryOf(ctx, op.Namespace, place.Repository)
	if err != nil {
		return reconcile.Result{}, err
	}
	if r == nil || r.Spec.S3 == nil {
		return reconcile.Result{}, c.leave(ctx, op, fmt.Sprintf("there is no BackupRepository %q any more", place.Repository))
	}
	job := &batchv1.Job{}
	err = c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: discardName(op)}, job)
	if apierrors.IsNotFound(err) {
		return c.makeDiscard(ctx, op, r)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot read Job %q: %w", discardName(op), err)
	}
	found, err := c.jobs().Look(ctx, job)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case found.Phase == platformv1.OperationRunning || !job.DeletionTimestamp.IsZero():
		return reconcile.Result{RequeueAfter: discardPoll}, nil
	case found.Phase == platformv1.OperationSucceeded:
		return reconcile.Result{}, c.release(ctx, op)
	}
	if left := found.Ended.Add(discardRetry).Sub(c.Now()); left > 0 {
		c.events.Warning(op, "ArtifactsNotRemoved", "The artifacts in %s of BackupRepository %q cannot be removed: %s. It "+
			"is tried again.", place.Folder, r.Name, saidByMover(found.Said, found.Message))
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err = c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: &job.UID})
	return reconcile.Result{RequeueAfter: discardPoll}, client.IgnoreNotFound(err)
}

// discardName is the name of the Job that removes the artifacts of an Operation.
func discardName(op *platformv1.Operation) string {
	sum := sha256.Sum256([]byte(op.UID))
	return "artifacts-" + hex.EncodeToString(sum[:12])
}

// makeDiscard makes the Job that removes artifacts. The repository owns it: what the Operation owns may go before it.
func (c *Controller) makeDiscard(ctx context.Context, op *platformv1.Operation,
	r *platformv1.BackupRepository) (reconcile.Result, error) {
	job, err := render.MoverAlone(c.Settings.Get(), render.Mover{
		Namespace: op.Namespace, Name: discardName(op), Domain: c.Domain, For: op.UID, Repository: r,
		Deadline: discardTimeout,
		Owner: metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: "BackupRepository", Name: r.Name,
			UID: r.UID},
		Plan: mover.Plan{Verb: mover.VerbDiscard, Artifacts: &mover.Artifacts{Folder: op.Status.Artifacts.Folder}},
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	job.Spec.TTLSecondsAfterFinished = new(int32(discardKept / time.Second))
	err = c.client.Create(ctx, job, client.FieldOwner(owner))
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, c.leave(ctx, op, "the namespace is being deleted")
	case err != nil && !apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, fmt.Errorf("cannot make Job %q: %w", job.Name, err)
	}
	return reconcile.Result{RequeueAfter: discardPoll}, nil
}

// leave lets an Operation go whose artifacts stay where they are, and says why.
func (c *Controller) leave(ctx context.Context, op *platformv1.Operation, why string) error {
	c.events.Warning(op, "ArtifactsLeft", "The artifacts in %s of BackupRepository %q were not removed: %s.",
		op.Status.Artifacts.Folder, op.Status.Artifacts.Repository, why)
	return c.release(ctx, op)
}

// release lets an Operation go.
func (c *Controller) release(ctx context.Context, op *platformv1.Operation) error {
	before := op.DeepCopy()
	controllerutil.RemoveFinalizer(op, platformv1.ArtifactsFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, op, patch, client.FieldOwner(owner)); ignoreOvertaken(err) != nil {
		return fmt.Errorf("cannot let go of Operation %q: %w", client.ObjectKeyFromObject(op), err)
	}
	return nil
}
