// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

// job makes, looks at or removes the Job of a step. It is read from the API server: nobody here waits for the cache.
func (c *Controller) job(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Job) (*opsflow.Answer, error) {
	if wanted.Verb == opsflow.JobStopStep {
		working, err := c.stopTasks(ctx, op, client.MatchingLabels{platformv1.StepLabel: wanted.Task.Step})
		if err != nil || !working {
			return &opsflow.Answer{}, err
		}
		return &opsflow.Answer{Job: opsflow.JobState{Phase: platformv1.OperationRunning}}, nil
	}
	if wanted.Verb == opsflow.JobRun {
		if refusal, err := c.makeJob(ctx, op, seen, wanted); refusal != nil || err != nil {
			return refusal, err
		}
	}
	job := &batchv1.Job{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: wanted.Name}, job)
	switch {
	case apierrors.IsNotFound(err):
		return &opsflow.Answer{}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read Job %q: %w", wanted.Name, err)
	case !metav1.IsControlledBy(job, op):
		return refuse("there is a Job %q that is not of this Operation: delete it", wanted.Name), nil
	}
	jobs := c.jobs()
	jobs.NeverGivesUp = wanted.Task != nil
	found, err := jobs.Look(ctx, job)
	if err != nil {
		return nil, err
	}
	state := jobStateOf(job, found)
	ended := state.Phase != platformv1.OperationRunning
	if wanted.Verb == opsflow.JobRemove || wanted.Verb == opsflow.JobStop && !ended {
		// Until its pod has ended, it is there.
		err := c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
			client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("cannot delete Job %q: %w", wanted.Name, err)
		}
	}
	return &opsflow.Answer{Job: state}, nil
}

// jobs looks at Jobs.
func (c *Controller) jobs() jobstate.Jobs {
	return jobstate.Jobs{Live: c.live, Client: c.client, Now: c.Now}
}

// makeJob makes a Job under its name, unless there is one already.
func (c *Controller) makeJob(ctx context.Context, op *platformv1.Operation, seen *observation,
	wanted *opsflow.Job) (*opsflow.Answer, error) {
	if wanted.Task != nil {
		return c.makeTask(ctx, op, wanted)
	}
	set, container, err := c.setLike(ctx, seen, wanted.Component, wanted.Pod)
	switch {
	case err != nil:
		return nil, err
	case set == nil:
		return refuse("Application %q has no pods of component %q that a job could be like", seen.application,
			wanted.Component), nil
	}
	if wanted.Pod != "" {
		if answer, err := c.mayHaveVolumes(ctx, op.Namespace, wanted.Pod); answer != nil || err != nil {
			return answer, err
		}
	}
	job, err := render.JobOf(set, container, c.Settings.Get(), render.Job{
		Name: wanted.Name, Pod: wanted.Pod, Mounts: wanted.Step.Mounts, Image: wanted.Image,
		Command: wanted.Command, Env: wanted.Env, Resources: wanted.Resources,
		ServiceAccountName: op.Spec.ServiceAccountName, Deadline: wanted.Deadline,
	})
	if err != nil {
		return refuse("Job %q cannot be made: %v", wanted.Name, err), nil
	}
	job.OwnerReferences = []metav1.OwnerReference{controlledBy(op)}
	return createJob(ctx, c.client, job)
}

// makeTask makes the Job of a task under its name, with the rights of the account of the Operation, unless there is one
// already.
func (c *Controller) makeTask(ctx context.Context, op *platformv1.Operation,
	wanted *opsflow.Job) (*opsflow.Answer, error) {
	as, err := c.actingAs(op)
	if err != nil {
		return nil, err
	}
	artifacts, answer, err := c.taskArtifacts(ctx, op, wanted.Task.Artifacts)
	if answer != nil || err != nil {
		return answer, err
	}
	job, err := render.TaskJob(c.Settings.Get(), render.Task{
		Namespace: op.Namespace, Name: wanted.Name, Domain: c.Domain, Operation: op.Name, Step: wanted.Task.Step,
		Pod:   wanted.Task.Pod,
		Image: wanted.Task.Image, Command: wanted.Task.Command, Args: wanted.Task.Args, Env: wanted.Task.Env,
		Mounts:    wanted.Task.Mounts,
		Artifacts: artifacts,
		Resources: wanted.Resources, Deadline: wanted.Deadline,
	})
	if err != nil {
		return refuse("Job %q cannot be made: %v", wanted.Name, err), nil
	}
	job.OwnerReferences = []metav1.OwnerReference{controlledBy(op)}
	return createJob(ctx, as, job)
}

// controlledBy has an Operation control what it makes, which goes with it.
func controlledBy(op *platformv1.Operation) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: operationKind, Name: op.Name,
		UID: op.UID, Controller: new(true)}
}

// createJob makes a Job that is not there yet. An answer says why it may not be made.
func createJob(ctx context.Context, as client.Client, job *batchv1.Job) (*opsflow.Answer, error) {
	err := as.Create(ctx, job, client.FieldOwner(owner))
	switch {
	case refused(err):
		return refuse("Job %q cannot be made: %v", job.Name, err), nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("cannot make Job %q: %w", job.Name, err)
	}
	return nil, nil
}

// mayHaveVolumes refuses the volumes of a pod that is there, or that may come back at any time: two would be at the
// same data.
func (c *Controller) mayHaveVolumes(ctx context.Context, namespace, pod string) (*opsflow.Answer, error) {
	set, name := &platformv1.WorkloadSet{}, platformv1.WorkloadSetNameOf(pod)
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", name, err)
	}
	if set.Spec.IsRunning() {
		return refuse("%s is running, and a job that has the volumes of pod %s needs it stopped", set.Name, pod), nil
	}
	switch err := c.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, &corev1.Pod{}); {
	case err == nil:
		return refuse("pod %s is there, whose volumes the job is to have", pod), nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot read pod %q: %w", pod, err)
	}
	return nil, nil
}

// setLike returns the set of a pod, or the first one of a component where no pod is named, and the name of the
// container that runs the middleware in its pods; nil when there is none.
func (c *Controller) setLike(ctx context.Context, seen *observation, component, pod string) (*platformv1.WorkloadSet,
	string, error) {
	pinned := opsflow.PinnedTo(seen.facts.Application)
	state, _ := c.Index.Get(pinned.Name, pinned.Version)
	if state.Bundle == nil {
		return nil, "", nil
	}
	declared, ok := state.Bundle.Component(component)
	if !ok {
		return nil, "", nil
	}
	var sets platformv1.WorkloadSetList
	err := c.client.List(ctx, &sets, client.InNamespace(seen.facts.Application.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: seen.application})
	if err != nil {
		return nil, "", fmt.Errorf("cannot list the WorkloadSets of Application %q: %w", seen.application, err)
	}
	slices.SortFunc(sets.Items, func(a, b platformv1.WorkloadSet) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sets.Items {
		if set := &sets.Items[i]; set.Spec.Component == component && set.DeletionTimestamp.IsZero() &&
			(pod == "" || platformv1.WorkloadSetNameOf(pod) == set.Name) {
			return set, declared.Container, nil
		}
	}
	return nil, "", nil
}
