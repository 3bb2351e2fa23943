// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// dependencyKey names what a CronJob depends on.
type dependencyKey struct{ kind, name string }

func dependencyOf(d batchv1.Dependency) dependencyKey {
	return dependencyKey{kind: cmp.Or(d.Kind, batchv1.DependsOnCronJob), name: d.Name}
}

// dependency is what a CronJob depends on, as far as it exists.
type dependency struct {
	// success is when a run last ended well, and failure when one last did not; nil for never.
	success, failure *metav1.Time
}

// observeDependencies reads what a CronJob depends on.
func (c *Controller) observeDependencies(ctx context.Context,
	cj *batchv1.CronJob) (map[dependencyKey]*dependency, error) {
	found := map[dependencyKey]*dependency{}
	for _, d := range cj.Spec.DependsOn {
		key := dependencyOf(d)
		read := c.cronJob
		if key.kind == batchv1.DependsOnWorkflow {
			read = c.workflowRuns
		}
		on, err := read(ctx, client.ObjectKey{Namespace: cj.Namespace, Name: d.Name})
		if err != nil {
			return nil, err
		}
		if on != nil {
			found[key] = on
		}
	}
	return found, nil
}

// cronJob is a CronJob that another one depends on; nil when it does not exist.
func (c *Controller) cronJob(ctx context.Context, key client.ObjectKey) (*dependency, error) {
	on, err := c.readCronJob(ctx, key)
	if on == nil {
		return nil, err
	}
	return &dependency{success: on.Status.LastSuccessTime, failure: failedAt(on)}, nil
}

// failedAt is when a run of a CronJob last failed; nil for never.
func failedAt(cj *batchv1.CronJob) *metav1.Time {
	if cj.Status.LastFailure == nil {
		return nil
	}
	return cj.Status.LastFailure.Time
}

// readCronJob reads a CronJob; nil when it does not exist.
func (c *Controller) readCronJob(ctx context.Context, key client.ObjectKey) (*batchv1.CronJob, error) {
	found := &batchv1.CronJob{}
	if err := c.client.Get(ctx, key, found); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("cannot read CronJob %q: %w", key.Name, err)
	}
	return found, nil
}

// workflowRuns are a Workflow and those that have their tasks from it, as one; nil when there are none.
func (c *Controller) workflowRuns(ctx context.Context, key client.ObjectKey) (*dependency, error) {
	var list batchv1.WorkflowList
	err := c.client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{tasksField: key.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("cannot list Workflows: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	on := &dependency{}
	for i := range list.Items {
		wf := &list.Items[i]
		switch end := wf.Status.CompletionTime; {
		case end == nil:
		case wf.Status.Phase == batchv1.WorkflowSucceeded:
			on.success = latest(on.success, end.Time)
		default:
			on.failure = latest(on.failure, end.Time)
		}
	}
	return on, nil
}
