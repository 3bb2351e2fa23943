// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

// taskSource is what the runs of a CronJob have their tasks from.
type taskSource struct {
	// workflow whose tasks they have; nil when it does not exist, or none is named.
	workflow *batchv1.Workflow
	// library has the Workflows that those tasks run.
	library taskgraph.Library
}

// graphOf compiles the tasks of a Workflow for the runs of a CronJob. The error is a sentence.
func graphOf(cj *batchv1.CronJob, source taskSource, check func(text string) error) (string, error) {
	run := cj.Spec.Task.Workflow
	name, tasks := run.TemplateFrom.Name, source.workflow
	if err := taskgraph.CheckTemplate(run.TemplateFrom, tasks); err != nil {
		return "", err
	}
	all := maps.Clone(source.library)
	if all == nil {
		all = taskgraph.Library{}
	}
	all[name] = tasks
	for _, other := range slices.Sorted(maps.Keys(all)) {
		if account := all[other].Spec.ServiceAccountName; account != cj.Spec.ServiceAccountName {
			return "", fmt.Errorf("Workflow %q has the serviceAccountName %q, and the CronJob %q: they must be the same, so "+
				"that nobody changes the tasks "+
				"who may not use that account", other, account, cj.Spec.ServiceAccountName)
		}
	}
	if approves := all.Approves(); approves != "" {
		return "", fmt.Errorf("Workflow %q has an approval, which needs an author, and the runs of a CronJob have none",
			approves)
	}
	from := taskgraph.SourceOf(tasks.DeepCopy())
	if r := cj.Spec.Retry; r != nil && r.ExitCodesField() != "" && !exitsByRetry(&tasks.Spec) {
		return "", fmt.Errorf("spec.retry.%s are those of containers, and Workflow %q has no task with a container that "+
			"spec.retry is for: leave them out", r.ExitCodesField(), name)
	}
	for i := range from.Tasks {
		tellTime(from.Tasks[i].Container, from.Tasks[i].Script)
	}
	for i := range from.OnExit {
		tellTime(from.OnExit[i].Container, from.OnExit[i].Script)
	}
	for _, name := range []string{parameterTime, parameterKey} {
		if !slices.ContainsFunc(from.Parameters, func(p batchv1.WorkflowParameter) bool { return p.Name == name }) {
			from.Parameters = append(from.Parameters, batchv1.WorkflowParameter{Name: name})
		}
	}
	text, err := taskgraph.Prepare(from, run.Parallelism, source.library, check)
	if err != nil {
		return "", fmt.Errorf("Workflow %q cannot be run: %w", name, err)
	}
	return text, checkArguments(from.Parameters, run.Arguments)
}

// exitsByRetry says whether a task has a container, and is tried again as the CronJob says.
func exitsByRetry(spec *batchv1.WorkflowSpec) bool {
	return slices.ContainsFunc(spec.Tasks, func(t batchv1.WorkflowTask) bool {
		return t.Retry == nil && (t.Container != nil || t.Script != nil)
	}) || slices.ContainsFunc(spec.OnExit, func(t batchv1.ExitTask) bool {
		return t.Retry == nil && (t.Container != nil || t.Script != nil)
	})
}

// checkArguments says what is wrong with the arguments of the runs; nil for nothing.
func checkArguments(parameters []batchv1.WorkflowParameter, arguments map[string]batchv1.Argument) error {
	set := slices.DeleteFunc(slices.Clone(parameters),
		func(p batchv1.WorkflowParameter) bool { return p.Name == parameterTime || p.Name == parameterKey })
	return taskgraph.CheckArguments(set, arguments)
}
