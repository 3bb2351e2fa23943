// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

// observe reads what a CronJob is decided on.
func (c *Controller) observe(ctx context.Context, cj *batchv1.CronJob) (facts, error) {
	f := facts{now: c.now(), runs: map[string]run{}}
	var list platformv1.OperationList
	err := c.client.List(ctx, &list, client.InNamespace(cj.Namespace),
		client.MatchingFields{runField: cj.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return f, fmt.Errorf("cannot list the runs of CronJob %q: %w", client.ObjectKeyFromObject(cj), err)
	}
	for i := range list.Items {
		if op := &list.Items[i]; metav1.IsControlledBy(op, cj) && op.DeletionTimestamp.IsZero() {
			f.runs[op.Name] = runOf(op)
		}
	}
	if err := c.observeActive(ctx, cj, f.runs); err != nil {
		return f, err
	}
	if f.dependencies, err = c.observeDependencies(ctx, cj); err != nil {
		return f, err
	}
	f.cycle, err = cycleOf(cj, func(name string) (*batchv1.CronJob, error) {
		return c.readCronJob(ctx, client.ObjectKey{Namespace: cj.Namespace, Name: name})
	})
	return f, err
}

// observeTasks reads the Workflow whose tasks a CronJob runs, and those that these run.
func (c *Controller) observeTasks(ctx context.Context, cj *batchv1.CronJob) (taskSource, error) {
	run := cj.Spec.Task.Workflow
	if run == nil {
		return taskSource{}, nil
	}
	read := func(name string) (*batchv1.Workflow, error) {
		found := &batchv1.Workflow{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: cj.Namespace, Name: name}, found)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return found, nil
	}
	workflow, err := read(run.TemplateFrom.Name)
	if err != nil {
		return taskSource{}, fmt.Errorf("cannot read Workflow %q: %w", run.TemplateFrom.Name, err)
	}
	if workflow == nil {
		return taskSource{}, nil
	}
	library, err := taskgraph.Collect(workflow.Spec.Tasks, read)
	return taskSource{workflow: workflow, library: library}, err
}

// observeActive reads the runs under way that the cache lacks, or that have ended: it leaves out why.
func (c *Controller) observeActive(ctx context.Context, cj *batchv1.CronJob, runs map[string]run) error {
	for _, one := range cj.Status.Active {
		if r, cached := runs[one.Operation]; cached && (r.ended.IsZero() || r.phase == platformv1.OperationSucceeded) {
			continue
		}
		op := &platformv1.Operation{}
		err := c.live.Get(ctx, client.ObjectKey{Namespace: cj.Namespace, Name: one.Operation}, op)
		switch {
		case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(op, cj):
			delete(runs, one.Operation)
		case err != nil:
			return fmt.Errorf("cannot read Operation %q: %w", one.Operation, err)
		default:
			runs[one.Operation] = runOf(op)
		}
	}
	return nil
}

// runOf is what is known of a run.
func runOf(op *platformv1.Operation) run {
	r := run{name: op.Name, phase: op.Status.Phase, failure: strings.TrimRight(op.Status.Error, ": "),
		obstacle: obstacleOf(op)}
	r.created = op.CreationTimestamp.Time
	// An annotation that is no time is that of no run of the schedule.
	r.time, _ = time.Parse(time.RFC3339, op.Annotations[platformv1.ScheduledForAnnotation])
	if op.Annotations[batchv1.SynchronizationAnnotation] != "" {
		r.synchronized = op
	}
	if op.Status.Phase.Ended() {
		r.ended = op.CreationTimestamp.Time
		if op.Status.CompletionTime != nil {
			r.ended = op.Status.CompletionTime.Time
		}
	}
	if op.Spec.Cancel {
		r.cancels = asked
	}
	if r.failure == "" && op.Status.Phase == platformv1.OperationCancelled {
		r.failure = "it was cancelled"
	}
	return r
}
