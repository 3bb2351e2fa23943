// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/wake"
)

// Fields that the cache finds objects of a namespace by.
const (
	// runField of an Operation is the name of the CronJob that it is a run of.
	runField = "cronjob"
	// tasksField of a Workflow are the names under which others depend on it: its own, and that of its template.
	tasksField = "tasks"
)

// What a CronJob is woken by: a success of a CronJob that it depends on, a change of a Workflow that it depends on or
// whose tasks it runs, one of any template since its tasks may run that in turn, and a lock that is free.
const (
	byAfter    = "after/"
	byTasks    = "tasks/"
	byTemplate = "template"
	byLock     = "lock"
)

// index has the cache find objects by these fields.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &platformv1.Operation{}, runField, func(obj client.Object) []string {
			if name := obj.GetLabels()[batchv1.CronJobLabel]; name != "" {
				return []string{name}
			}
			return nil
		}),
		indexer.IndexField(ctx, &batchv1.Workflow{}, tasksField, func(obj client.Object) []string {
			return tasksOf(obj.(*batchv1.Workflow))
		}),
		indexer.IndexField(ctx, &batchv1.CronJob{}, wake.Field, func(obj client.Object) []string {
			return wokenBy(obj.(*batchv1.CronJob))
		}),
	)
}

// tasksOf returns the names of the Workflows whose tasks one runs: itself, and its template.
func tasksOf(wf *batchv1.Workflow) []string {
	names := []string{wf.Name}
	if from := wf.Spec.TemplateFrom; from != nil && from.Name != wf.Name {
		names = append(names, from.Name)
	}
	return names
}

// wokenBy returns what a CronJob is woken by.
func wokenBy(cj *batchv1.CronJob) []string {
	var by []string
	for _, d := range cj.Spec.DependsOn {
		key := dependencyOf(d)
		by = append(by, byAfter+key.kind+"/"+key.name)
	}
	if run := cj.Spec.Task.Workflow; run != nil {
		by = append(by, byTasks+run.TemplateFrom.Name, byTemplate)
	}
	waits := func(one batchv1.ActiveRun) bool { return cj.Spec.Synchronization != nil || one.Message != "" }
	if slices.ContainsFunc(cj.Status.Active, waits) {
		by = append(by, byLock)
	}
	return by
}

// dependents wakes the CronJobs that depend on one.
func (c *Controller) dependents(ctx context.Context, obj client.Object) []reconcile.Request {
	return wake.Find(ctx, c.client, &batchv1.CronJobList{}, obj.GetNamespace(),
		byAfter+batchv1.DependsOnCronJob+"/"+obj.GetName())
}

// users wakes the CronJobs that run the tasks of a Workflow or depend on it.
func (c *Controller) users(ctx context.Context, obj client.Object) []reconcile.Request {
	wf := obj.(*batchv1.Workflow)
	by := []string{byTasks + wf.Name}
	for _, name := range tasksOf(wf) {
		by = append(by, byAfter+batchv1.DependsOnWorkflow+"/"+name)
	}
	if wf.Spec.TemplateOnly {
		by = append(by, byTemplate)
	}
	return wake.Find(ctx, c.client, &batchv1.CronJobList{}, wf.Namespace, by...)
}

// waiting wakes the CronJobs with runs that may wait for what a run held, or behind it.
func (c *Controller) waiting(ctx context.Context, obj client.Object) []reconcile.Request {
	return wake.Find(ctx, c.client, &batchv1.CronJobList{}, obj.GetNamespace(), byLock)
}
