// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/stores"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

const (
	// volumesKept is what every refusal to delete the volumes of before ends with.
	volumesKept = "the previous volumes are kept: delete them yourself when nobody needs them, or run the Operation " +
		"again with retryOf"
	// verifierKept is how long the Job that read a safety copy stays. What it found is on record long before.
	verifierKept = time.Hour
	// longestSaid is how many characters of what that Job says are shown.
	longestSaid = 400
)

// dropData deletes the volumes that the pods of a set had before, when what took their place is there and a copy of
// them is whole.
func (c *Controller) dropData(ctx context.Context, op *platformv1.Operation, set *platformv1.WorkloadSet,
	wanted *opsflow.Data) (*opsflow.Answer, error) {
	if set.Spec.Generation() != wanted.Generation || set.Spec.IsClosed() {
		return refuse("the spec of %s asks for volumes of generation %q by now, and clients may not be led there: %s",
			set.Name, set.Spec.Generation(), volumesKept), nil
	}
	if again := writtenAgain(set, wanted); again != "" {
		return refuse("%s", again), nil
	}
	_, lost, err := c.restoredClaims(ctx, set, wanted)
	if err != nil {
		return nil, err
	}
	if lost != "" {
		return refuse("%s: %s", lost, volumesKept), nil
	}
	backup := &platformv1.Backup{}
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: wanted.Copy},
		backup); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read Backup %q: %w", wanted.Copy, err)
	}
	ready := conditions.Get(backup, platformv1.ReadyCondition)
	if backup.Status.Phase != platformv1.BackupCompleted || backup.DeletionTimestamp != nil ||
		backup.Status.Digest != wanted.CopyDigest ||
		ready != nil && ready.Reason == platformv1.ReasonBackupDataMissing {
		return refuse("the safety copy, Backup %q, is missing, incomplete, or being deleted: %s", wanted.Copy,
			volumesKept), nil
	}
	if answer, err := c.verifyCopy(ctx, op, backup); answer != nil || err != nil {
		return answer, err
	}
	return c.deleteData(ctx, set, wanted.Former)
}

// writtenAgain says why the safety copy cannot stand for the volumes of before: pods had them once more after they had
// left them, and what was written then is nowhere else. Empty when they did not.
func writtenAgain(set *platformv1.WorkloadSet, wanted *opsflow.Data) string {
	const kept = "the previous volumes are kept: delete them yourself when nobody needs them"
	if wanted.FormerTerm == 0 {
		// Nobody was on record there.
		return ""
	}
	i := slices.IndexFunc(set.Status.FormerPrimaries,
		func(record platformv1.PrimaryRecord) bool { return record.Data == wanted.Former })
	switch {
	case i < 0:
		return "it is no longer known which pod was the last primary on the previous volumes: " + kept
	case set.Status.FormerPrimaries[i].Term > wanted.FormerTerm:
		return "the previous volumes were written again after the swap, and the safety copy lacks that: " + kept
	}
	return ""
}

// verifyCopy has a mover read all of a safety copy: the Backup says how it was when it was made, and the store alone
// has how it is. It answers nil when all of that is as it was written.
func (c *Controller) verifyCopy(ctx context.Context, op *platformv1.Operation,
	backup *platformv1.Backup) (*opsflow.Answer, error) {
	job := &batchv1.Job{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: verifierName(op)}, job)
	switch {
	case apierrors.IsNotFound(err):
		return c.makeVerifier(ctx, op, backup)
	case err != nil:
		return nil, fmt.Errorf("cannot read Job %q: %w", verifierName(op), err)
	case !metav1.IsControlledBy(job, op):
		return refuse("there is a Job %q that is not of this Operation: delete it; %s", job.Name, volumesKept), nil
	case job.DeletionTimestamp != nil:
		return later("the Job that read the safety copy before is being deleted"), nil
	}
	found, err := c.jobs().Look(ctx, job)
	if err != nil {
		return nil, err
	}
	if found.Phase == platformv1.OperationRunning {
		said := fmt.Sprintf("the safety copy, Backup %q, is verified before the previous volumes are deleted", backup.Name)
		if found.Message != "" {
			said += ": " + jobstate.Tail(found.Message, longestSaid)
		}
		return later(said), nil
	}
	result := found.Result()
	if result.Reason == "" {
		return nil, nil
	}
	if !jobstate.IsFinal(result.Reason) {
		// Another attempt reads it anew.
		err := c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("cannot delete Job %q: %w", job.Name, err)
		}
	}
	return refuse("the safety copy, Backup %q, was not found intact: %s: %s; %s", backup.Name, result.Reason,
		result.Message, volumesKept), nil
}

// makeVerifier makes the Job that reads a safety copy.
func (c *Controller) makeVerifier(ctx context.Context, op *platformv1.Operation,
	backup *platformv1.Backup) (*opsflow.Answer, error) {
	repository := &platformv1.BackupRepository{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: backup.Spec.RepositoryRef.Name}, repository)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("there is no BackupRepository %q, which the safety copy is kept in: %s", backup.Spec.RepositoryRef.Name,
			volumesKept), nil
	case err != nil:
		return nil, fmt.Errorf("cannot read BackupRepository %q: %w", backup.Spec.RepositoryRef.Name, err)
	}
	switch missing, err := stores.Missing(ctx, c.live, repository); {
	case err != nil:
		return nil, err
	case missing.Message != "":
		return refuse("the safety copy cannot be read: %s; %s", missing.Message, volumesKept), nil
	}
	job, err := render.MoverAlone(c.Settings.Get(), render.Mover{
		Namespace: op.Namespace, Name: verifierName(op), Domain: c.Domain, For: backup.UID, Repository: repository,
		Deadline: opsflow.TimeoutOf(op),
		Owner:    controlledBy(op),
		Plan: mover.Plan{Verb: mover.VerbInspect, Verify: true,
			Backup: &mover.Backup{Key: backup.Status.Key, Digest: backup.Status.Digest}},
	})
	if err != nil {
		return refuse("Job %q cannot be made: %v; %s", verifierName(op), err, volumesKept), nil
	}
	job.Spec.TTLSecondsAfterFinished = new(int32(verifierKept / time.Second))
	switch answer, err := createJob(ctx, c.client, job); {
	case err != nil:
		return nil, err
	case answer != nil:
		return refuse("%s; %s", answer.Problem, volumesKept), nil
	}
	return later(fmt.Sprintf("the safety copy, Backup %q, is verified before the previous volumes are deleted",
		backup.Name)), nil
}

func verifierName(op *platformv1.Operation) string { return fmt.Sprintf("verify-copy-%s", op.UID) }
