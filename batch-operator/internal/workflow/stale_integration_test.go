// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// short ends by itself, and long waits for a ConfigMap.
	short = "tasks: [{name: a, apply: {manifest: '{apiVersion: v1, kind: ConfigMap, metadata: {name: done}}'}}]"
	long  = "tasks: [{name: a, wait: {apiVersion: v1, kind: ConfigMap, name: config, until: 'true'}}]"
)

// controllers runs the controllers of Workflows and Operations until the test ends, or they are told to stop.
func (b *bench) controllers(o enginetest.Options) (stop func()) {
	b.Helper()
	o.Domain, o.Namespace = domain, b.namespace
	o.Kinds = []client.Object{&batchv1.CronJob{}, &batchv1.Workflow{}}
	mgr := enginetest.NewManager(b, env, o)
	if err := (Kind{}).Setup(mgr, operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate}); err != nil {
		b.Fatal(err)
	}
	return testkit.Run(b, mgr)
}

// begun waits until the Operation of a Workflow is on record and as it is to be, and returns it.
func (b *bench) begun(wf *batchv1.Workflow, phase platformv1.OperationPhase) *platformv1.Operation {
	b.Helper()
	testkit.WaitFor(b, env.Client, wf, "its Operation is on record", func() error {
		if wf.Status.Operation == "" {
			return fmt.Errorf("it says %+v", wf.Status)
		}
		return nil
	})
	op := &platformv1.Operation{}
	op.Namespace, op.Name = b.namespace, wf.Status.Operation
	b.operationIs(op, phase)
	return op
}

func (b *bench) operationIs(op *platformv1.Operation, phase platformv1.OperationPhase) {
	b.Helper()
	testkit.WaitFor(b, env.Client, op, string(phase), func() error {
		if op.Status.Phase != phase {
			return fmt.Errorf("it says %+v", op.Status)
		}
		return nil
	})
}

// The cache has a Workflow as it was before its Operation was on record, and what becomes of the Operation wakes the
// controller: it takes nothing back that is on record, and creates nothing.
func TestACacheOfBeforeTheOperationIsNotActedOn(t *testing.T) {
	for title, c := range map[string]struct {
		spec    string
		phase   platformv1.OperationPhase
		deleted bool
		end     batchv1.WorkflowPhase
		message string
	}{
		"it ends":       {spec: short, phase: platformv1.OperationSucceeded, end: batchv1.WorkflowSucceeded},
		"it is deleted": {long, platformv1.OperationRunning, true, batchv1.WorkflowFailed, "was deleted before it ended"},
	} {
		t.Run(title, func(t *testing.T) {
			b, way := newBench(t), &testkit.Transport{}
			// A status that tells of nothing but progress is held back for a while.
			held, late := &atomic.Pointer[time.Time]{}, &atomic.Bool{}
			way.Before(func(r *http.Request) {
				since, of := held.Load(), testkit.ResourceOf(r)
				switch {
				case since != nil && (of == "workflows" || of == "operations"):
					late.Store(late.Load() || time.Since(*since) > 2*frame.Progress)
				case r.Method == http.MethodPost && of == "operations":
					held.Store(new(time.Now()))
					way.Hold("workflows")
				}
			})
			b.controllers(enginetest.Options{Transport: way})
			t.Cleanup(way.Release)
			wf := b.run("late", c.spec)
			op := b.begun(wf, c.phase)
			recorded := wf.ResourceVersion
			if c.deleted {
				if err := env.Client.Delete(t.Context(), op); err != nil {
					t.Fatal(err)
				}
				testkit.WaitGone(t, env.Client, op)
			}
			late.Store(false)
			testkit.Eventually(t, "a turn on the old version", func(context.Context) error {
				if !late.Load() {
					return fmt.Errorf("it was asked for %d times", way.Requests(http.MethodGet, "workflows"))
				}
				return nil
			})
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(wf), wf); err != nil || wf.ResourceVersion !=
				recorded {
				t.Errorf("on the old version it wrote %+v: %v", wf.Status, err)
			}
			if n := way.Requests(http.MethodPost, "operations"); n != 1 {
				t.Errorf("Operations were created %d times", n)
			}
			way.Release()
			b.reaches(wf, c.end, c.message)
			if n := way.Requests(http.MethodPost, "operations"); n != 1 || wf.Status.Operation != op.Name {
				t.Errorf("Operations were created %d times, and the status is %+v", n, wf.Status)
			}
		})
	}
}

// The operator ends after it created an Operation and before its name is on record. Whatever is asked for by the time
// that the next one comes, that follows the Operation: it is there.
func TestOperationThatIsNotOnRecordIsFollowed(t *testing.T) {
	for title, c := range map[string]struct {
		spec  string
		phase platformv1.OperationPhase
		edit  func(*batchv1.WorkflowSpec)
		end   batchv1.WorkflowPhase
		is    func(op *platformv1.Operation) bool
	}{
		"it has ended": {spec: short, phase: platformv1.OperationSucceeded, end: batchv1.WorkflowSucceeded},
		"stop": {long, platformv1.OperationRunning, func(s *batchv1.WorkflowSpec) { s.Stop = true },
			batchv1.WorkflowStopped,
			func(op *platformv1.Operation) bool { return op.Status.Phase == platformv1.OperationCancelled }},
		"terminate": {spec: long, phase: platformv1.OperationRunning,
			edit: func(s *batchv1.WorkflowSpec) { s.Terminate = true }, end: batchv1.WorkflowStopped},
		"suspend": {long, platformv1.OperationRunning, func(s *batchv1.WorkflowSpec) { s.Suspend = true },
			batchv1.WorkflowSuspended, func(op *platformv1.Operation) bool { return op.Spec.Suspend }},
	} {
		t.Run(title, func(t *testing.T) {
			b, fail := newBench(t), &atomic.Bool{}
			fail.Store(true)
			stop := b.controllers(enginetest.Options{NewClient: testkit.Unrecorded("Workflow", fail)})
			wf := b.run("lost", c.spec)
			var op *platformv1.Operation
			testkit.Eventually(t, "an Operation", func(ctx context.Context) error {
				var list platformv1.OperationList
				if err := env.Client.List(ctx, &list, client.InNamespace(b.namespace)); err != nil || len(list.Items) != 1 {
					return fmt.Errorf("there are %d: %v", len(list.Items), err)
				}
				op = &list.Items[0]
				return nil
			})
			b.operationIs(op, c.phase)
			stop()
			if c.edit != nil {
				b.edit(wf, func() { c.edit(&wf.Spec) })
			}
			fail.Store(false)
			b.controllers(enginetest.Options{})
			b.reaches(wf, c.end, "")
			if c.is == nil && c.phase == platformv1.OperationRunning {
				testkit.WaitGone(t, env.Client, op)
				return
			}
			testkit.WaitFor(t, env.Client, op, "is as it was asked to be", func() error {
				if c.is != nil && !c.is(op) {
					return fmt.Errorf("it is %+v", op.Status)
				}
				return nil
			})
			if wf.Status.Operation != op.Name {
				t.Errorf("the status is %+v", wf.Status)
			}
		})
	}
}
