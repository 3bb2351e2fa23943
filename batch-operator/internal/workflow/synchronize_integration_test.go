// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// turn is a Workflow that holds a mutex until a ConfigMap of that name exists.
func turn(name string) string {
	return `
synchronization: {mutexes: [{name: database}]}
tasks: [{name: wait, wait: {apiVersion: v1, kind: ConfigMap, name: ` + name + `, until: 'has(object.metadata)'}}]
`
}

// suspended reads whether the Operation of a Workflow is.
func (b *bench) suspended(wf *batchv1.Workflow) bool {
	b.Helper()
	op, key := &platformv1.Operation{}, client.ObjectKey{Namespace: b.namespace, Name: wf.Status.Operation}
	if err := env.Client.Get(b.Context(), key, op); err != nil {
		b.Fatal(err)
	}
	return op.Spec.Suspend
}

// The operator is killed while one holds the mutex, and while it releases it; another one holds it and is deleted.
func TestRunsTakeTurnsAlthoughTheOperatorIsKilled(t *testing.T) {
	b := newBench(t)
	kill := serve(t)
	first := b.run("first", turn("first"))
	b.reaches(first, batchv1.WorkflowRunning, "")
	held := `waiting for mutex "database", held by Operation "` + first.Status.Operation + `"`
	second := b.run("second", turn("second"))
	b.reaches(second, batchv1.WorkflowPending, held)
	stopped := b.run("stopped", turn("stopped"))
	b.reaches(stopped, batchv1.WorkflowPending, held)
	if b.suspended(first) || !b.suspended(second) {
		t.Error("the one that has its turn is not the one that is under way")
	}
	b.edit(stopped, func() { stopped.Spec.Stop = true })
	b.reaches(stopped, batchv1.WorkflowStopped, "")
	kill()
	b.create(b.configMap("first", nil))
	serve(t)
	b.reaches(first, batchv1.WorkflowSucceeded, "")
	b.reaches(second, batchv1.WorkflowRunning, "")
	third := b.run("third", turn("third"))
	b.reaches(third, batchv1.WorkflowPending, `held by Operation "`+second.Status.Operation+`"`)
	b.delete(second)
	b.reaches(third, batchv1.WorkflowRunning, "")
	b.create(b.configMap("third", nil))
	b.reaches(third, batchv1.WorkflowSucceeded, "")
	testkit.WaitFor(t, env.Client, b.configMap("batch-mutex.database", nil), "is there", nil)
}

// behind is turn with a priority.
func behind(name, priority string) string {
	return strings.Replace(turn(name), "}]}", "}], priority: "+priority+"}", 1)
}

// delete deletes a Workflow, and its Operation as the garbage collector would.
func (b *bench) delete(wf *batchv1.Workflow) {
	b.Helper()
	op := &platformv1.Operation{}
	op.Namespace, op.Name = b.namespace, wf.Status.Operation
	for _, object := range []client.Object{wf, op} {
		if err := env.Client.Delete(b.Context(), object); err != nil {
			b.Fatal(err)
		}
	}
}

// Five wait that were created in another order than that of their priorities. The operator is killed before the first
// of them has its turn; one is deleted and one suspended, and neither keeps the others waiting.
func TestTheHighestPriorityHasItsTurnFirst(t *testing.T) {
	b := newBench(t)
	kill := serve(t)
	ends := func(wf *batchv1.Workflow) {
		t.Helper()
		b.create(b.configMap(wf.Name, nil))
		b.reaches(wf, batchv1.WorkflowSucceeded, "")
	}
	holder := b.run("holder", turn("holder"))
	b.reaches(holder, batchv1.WorkflowRunning, "")
	low, high, mid := b.run("low", behind("low", "-1")), b.run("high", behind("high", "9")), b.run("mid", turn("mid"))
	gone, paused := b.run("gone", behind("gone", "8")), b.run("paused", behind("paused", "7"))
	for _, wf := range []*batchv1.Workflow{low, high, mid, gone, paused} {
		b.reaches(wf, batchv1.WorkflowPending, `held by Operation "`+holder.Status.Operation+`"`)
	}
	kill()
	kill = serve(t)
	b.reaches(paused, batchv1.WorkflowPending, `; ahead of it: Operation "`+high.Status.Operation+`", Operation "`+
		gone.Status.Operation+`"`)
	kill()
	b.create(b.configMap("holder", nil))
	serve(t)
	b.reaches(holder, batchv1.WorkflowSucceeded, "")
	b.reaches(high, batchv1.WorkflowRunning, "")
	b.delete(gone)
	b.edit(paused, func() { paused.Spec.Suspend = true })
	b.reaches(paused, batchv1.WorkflowSuspended, "")
	for _, wf := range []*batchv1.Workflow{low, mid, paused} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(wf), wf); err != nil || !b.suspended(wf) {
			t.Errorf("%s has its turn before %s: %v", wf.Name, high.Name, err)
		}
	}
	ends(high)
	b.reaches(mid, batchv1.WorkflowRunning, "")
	ends(mid)
	b.reaches(low, batchv1.WorkflowRunning, "")
	b.edit(paused, func() { paused.Spec.Suspend = false })
	b.reaches(paused, batchv1.WorkflowPending, `held by Operation "`+low.Status.Operation+`"`)
	ends(low)
	b.reaches(paused, batchv1.WorkflowRunning, "")
	ends(paused)
}

func TestSynchronizationIsRefused(t *testing.T) {
	b := newBench(t)
	const tasks = "\ntasks: [{name: a, delete: {apiVersion: v1, kind: ConfigMap, name: a}}]"
	for title, c := range map[string]struct{ spec, want string }{
		"nothing":  {"synchronization: {}", "set mutexes, semaphores or both"},
		"priority": {"synchronization: {priority: 1}", "set mutexes, semaphores or both"},
		"a name":   {"synchronization: {mutexes: [{name: A.b}]}", "mutexes[0].name"},
		"template": {"templateOnly: true\nsynchronization: {mutexes: [{name: a}]}", "a template has tasks"},
	} {
		t.Run(title, func(t *testing.T) {
			testkit.Refused(t, env.Client.Create(t.Context(), b.workflow("refused", c.spec+tasks)), c.want)
		})
	}
}
