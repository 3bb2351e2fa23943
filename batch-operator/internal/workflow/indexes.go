// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
	"github.com/zeroinfra/batch-operator/internal/wake"
)

// What a Workflow is woken by: a change of its template, one of any template since the tasks that it runs may run that
// in turn, and a lock that is free.
const (
	byTasks    = "tasks/"
	byTemplate = "template"
	byLock     = "lock"
)

// index has the cache find Workflows by what they are woken by.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &batchv1.Workflow{}, wake.Field, func(obj client.Object) []string {
		return wokenBy(obj.(*batchv1.Workflow))
	})
}

// wokenBy returns what a Workflow is woken by.
func wokenBy(wf *batchv1.Workflow) []string {
	var by []string
	if from := wf.Spec.TemplateFrom; wf.Status.Operation == "" || retries(wf) {
		if from != nil {
			by = append(by, byTasks+from.Name)
		}
		if from != nil || len(taskgraph.Uses(wf.Spec.Tasks)) > 0 {
			by = append(by, byTemplate)
		}
	}
	if wf.Spec.Synchronization != nil && mayWait(wf.Status.Phase) {
		by = append(by, byLock)
	}
	return by
}

// dependents wakes the Workflows that wait for a template, or are templates that run it.
func (c *Controller) dependents(ctx context.Context, obj client.Object) []reconcile.Request {
	by := []string{byTasks + obj.GetName()}
	if obj.(*batchv1.Workflow).Spec.TemplateOnly {
		by = append(by, byTemplate)
	}
	return wake.Find(ctx, c.client, &batchv1.WorkflowList{}, obj.GetNamespace(), by...)
}

// waiting wakes the Workflows that may wait for what a run held, or behind it.
func (c *Controller) waiting(ctx context.Context, obj client.Object) []reconcile.Request {
	return wake.Find(ctx, c.client, &batchv1.WorkflowList{}, obj.GetNamespace(), byLock)
}
