// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

// holdArtifacts has an Operation stay until its artifacts are removed. That is on record before any is made.
func (c *Controller) holdArtifacts(ctx context.Context, op *platformv1.Operation, seen *observation) error {
	if seen.facts.Template.Artifacts == nil || op.Spec.DryRun ||
		controllerutil.ContainsFinalizer(op, platformv1.ArtifactsFinalizer) {
		return nil
	}
	held := op.DeepCopy()
	controllerutil.AddFinalizer(held, platformv1.ArtifactsFinalizer)
	patch := client.MergeFromWithOptions(op, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, held, patch, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("cannot add a finalizer to Operation %q: %w", client.ObjectKeyFromObject(op), err)
	}
	c.written.set(held)
	*op = *held
	return nil
}

// taskArtifacts are those of a task with the repository that they are in. An answer says what is wrong with that, or
// what it lacks yet.
func (c *Controller) taskArtifacts(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.TaskArtifacts) (*render.TaskArtifacts, *opsflow.Answer, error) {
	if wanted == nil {
		return nil, nil, nil
	}
	hold := func(reason, format string, args ...any) *opsflow.Answer {
		answer := later(fmt.Sprintf(format, args...))
		answer.Reason = reason
		return answer
	}
	r, err := c.repositoryOf(ctx, op.Namespace, wanted.Repository)
	switch {
	case err != nil:
		return nil, nil, err
	case r == nil:
		return nil, hold(platformv1.ReasonRepositoryNotFound, "there is no BackupRepository %q in this namespace, where the "+
			"artifacts are to be kept: create it", wanted.Repository), nil
	case r.Spec.S3 == nil:
		return nil, refuse("BackupRepository %q is on a volume, and artifacts are kept in a bucket: name one with s3",
			r.Name), nil
	case r.Spec.Encryption != nil:
		return nil, refuse("BackupRepository %q is encrypted, and artifacts are not: name one without encryption",
			r.Name), nil
	}
	ready, says := metav1.ConditionUnknown, "it has yet to be checked"
	for i := range r.Status.Domains {
		if state := &r.Status.Domains[i]; state.Domain == c.Domain {
			ready, says = state.Ready, cmp.Or(state.Message, state.Reason)
		}
	}
	if ready != metav1.ConditionTrue {
		return nil, hold(platformv1.ReasonRepositoryNotReady, "BackupRepository %q is not ready: %s", r.Name, says), nil
	}
	return &render.TaskArtifacts{Repository: r, Folders: wanted.Folders, Fetch: wanted.Fetch, Keep: wanted.Keep}, nil, nil
}

// repositoryOf reads a BackupRepository; nil for one that does not exist, or is being deleted.
func (c *Controller) repositoryOf(ctx context.Context, namespace, name string) (*platformv1.BackupRepository, error) {
	r := &platformv1.BackupRepository{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
	if apierrors.IsNotFound(err) || err == nil && !r.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read BackupRepository %q: %w", name, err)
	}
	return r, nil
}

// jobStateOf is how the Job of a step stands. A task that has artifacts has containers of movers beside its own: what
// one of them says when it fails is no exit code of the task.
func jobStateOf(job *batchv1.Job, found jobstate.State) opsflow.JobState {
	state := opsflow.JobState{Phase: found.Phase, Message: found.Message, Reason: found.Reason, ExitCode: found.ExitCode}
	containers := job.Spec.Template.Spec.Containers
	keeps := len(containers) > 0 && containers[0].Name == render.KeepContainer
	switch {
	case found.Failed == render.FetchContainer:
		state.Message, state.ExitCode = saidByMover(found.Inits[render.FetchContainer], found.Message), 0
	case !keeps || found.Failed != "":
	case found.Phase == platformv1.OperationSucceeded:
		result := found.Result()
		state.Message, state.Kept, state.Location = found.Inits[render.TaskContainer], result.Artifacts, result.Location
	case found.Said != "":
		state.Message, state.ExitCode = saidByMover(found.Said, found.Message), 0
	}
	return state
}

// saidByMover is the sentence in the result of a mover that failed; another text where it left none.
func saidByMover(said, otherwise string) string {
	var result mover.Result
	if err := json.Unmarshal([]byte(said), &result); err != nil {
		return otherwise
	}
	return cmp.Or(result.Message, result.Reason, otherwise)
}
