// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// A Workflow that cannot begin, one that waits for what never comes and one whose account lacks a right each say so,
// and one beside them ends.
func TestWhatCannotGoOnHoldsUpNothingElse(t *testing.T) {
	b := newBench(t)
	serve(t)
	cycle := b.run("cycle", "tasks: [{name: a, dependsOn: [{name: b}], "+call+"}, {name: b, dependsOn: [{name: a}], "+
		call+"}]")
	limit := b.run("limit", "synchronization: {semaphores: [{configMapKeyRef: {name: none, key: count}}]}\ntasks: "+
		"[{name: a, "+call+"}]")
	right := b.run("right", `
tasks: [{name: a, apply: {manifest: '{apiVersion: v1, kind: Secret, metadata: {name: a}}'}}]
onExit: [{name: told, after: Failed, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: told}}'}}]
`)
	fine := b.run("fine", `
tasks: [{name: a, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'}}]
`)
	b.reaches(fine, batchv1.WorkflowSucceeded, "")
	b.reaches(cycle, batchv1.WorkflowPending,
		"spec.tasks: tasks depend on each other in a cycle: a depends on b depends on a")
	if !conditions.IsTrue(cycle, platformv1.StalledCondition) || cycle.Status.Operation != "" {
		t.Errorf("the status is %+v", cycle.Status)
	}
	b.reaches(limit, batchv1.WorkflowPending,
		`waiting for semaphore "count" of ConfigMap "none": that ConfigMap does not exist`)
	b.reaches(right, batchv1.WorkflowFailed, `task "a" failed: `)
	b.reaches(right, batchv1.WorkflowFailed, `cannot patch resource "secrets"`)
	if got := tasks(right); got != "a=Failed told=Succeeded" {
		t.Errorf("the tasks are %s", got)
	}
}
