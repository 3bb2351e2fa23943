// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

const (
	// owner names the controller.
	owner = "workflow"
	// createdLook is when a Workflow is looked at again whose Operation was created.
	createdLook = 100 * time.Millisecond
)

// Kind is the controller of Workflows, for operator.Options.
type Kind struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

var _ operator.Judge = Kind{}

// Object implements operator.Controller.
func (Kind) Object() client.Object { return &batchv1.Workflow{} }

// Judge implements operator.Judge. What a Workflow has from others is judged once it runs.
func (Kind) Judge(obj client.Object, s operator.ControllerSettings) error {
	wf := obj.(*batchv1.Workflow)
	spec := &wf.Spec
	if spec.TemplateFrom != nil || len(taskgraph.Uses(spec.Tasks)) > 0 {
		return nil
	}
	if _, err := taskgraph.Prepare(taskgraph.SourceOf(wf), spec.Parallelism, nil, s.CheckTemplate); err != nil ||
		spec.TemplateOnly {
		return err
	}
	return taskgraph.CheckArguments(spec.Parameters, spec.Arguments)
}

// Setup implements operator.Controller.
func (k Kind) Setup(mgr ctrl.Manager, s operator.ControllerSettings) error {
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("cannot index what Workflows are woken by: %w", err)
	}
	c := &Controller{client: mgr.GetClient(), live: mgr.GetAPIReader(), check: s.CheckTemplate, now: k.Now}
	if c.now == nil {
		c.now = time.Now
	}
	c.apply = apply.NewWithReader(c.client, c.live, owner)
	c.locks = semaphore.New(c.client, c.live, owner, c.now)
	c.frame = frame.New(c.client, c.work, func(*batchv1.Workflow, outcome.Outcome) {}).AtOnce(turned).Counting(owner)
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&batchv1.Workflow{}, builder.WithPredicates(changed)).
		Owns(&platformv1.Operation{}).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.waiting),
			builder.WithPredicates(semaphore.Released)).
		Watches(&batchv1.Workflow{}, handler.EnqueueRequestsFromMapFunc(c.waiting),
			builder.WithPredicates(semaphore.Paused)).
		Watches(&batchv1.Workflow{}, handler.EnqueueRequestsFromMapFunc(c.dependents),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(queue.Options(s.Workers)).
		Complete(c)
}

// Controller runs Workflows.
type Controller struct {
	client client.Client
	live   client.Reader
	apply  *apply.Applier
	locks  *semaphore.Locker
	// check says what is wrong with an inline template.
	check func(text string) error
	now   func() time.Time
	frame *frame.Frame[*batchv1.Workflow]
}

// turned says whether a status has more news than how far the tasks are.
func turned(before, after *batchv1.Workflow) bool {
	return before.Status.Phase != after.Status.Phase || before.Status.Operation != after.Status.Operation
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &batchv1.Workflow{})
}

// work begins and follows the attempts of a Workflow, and fills in the status.
func (c *Controller) work(ctx context.Context, wf *batchv1.Workflow) outcome.Outcome {
	if !wf.DeletionTimestamp.IsZero() {
		return outcome.Done()
	}
	f, err := c.observe(ctx, wf)
	if err == nil {
		f.waiting, err = c.synchronize(ctx, wf, f.operation)
	}
	if err != nil {
		return outcome.Failed(err)
	}
	before := wf.Status.DeepCopy()
	p := decide(wf, f)
	if err := c.act(ctx, wf, p); err != nil {
		wf.Status = *before
		if o := apply.Outcome(err); o.Kind() == outcome.KindStalled {
			return report(wf, plan{}, o)
		}
		return outcome.Failed(err)
	}
	o := report(wf, p, outcome.Done())
	if p.create != nil {
		// It may have ended before its name is on record, and tells nothing after that.
		return o.Within(createdLook)
	}
	if !p.wake.IsZero() {
		o = o.Within(max(p.wake.Sub(f.now), time.Millisecond))
	}
	return o
}

// observe reads what a Workflow is decided on.
func (c *Controller) observe(ctx context.Context, wf *batchv1.Workflow) (facts, error) {
	f := facts{now: c.now(), check: c.check}
	if wf.Status.Operation != "" && (!finished(&wf.Status) || retries(wf)) {
		op, err := c.apply.Operation(ctx, wf, wf.Status.Operation)
		if err != nil {
			return f, err
		}
		f.operation = op
	}
	if f.operation != nil && !finished(&wf.Status) {
		// It began: what its template is by now does not matter.
		return f, nil
	}
	if isHeld(wf) {
		next, err := c.apply.Operation(ctx, wf, nameOf(wf, wf.Status.Attempt+1))
		if err != nil {
			return f, err
		}
		f.unrecorded = next != nil
	}
	read := func(name string) (*batchv1.Workflow, error) {
		found := &batchv1.Workflow{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: wf.Namespace, Name: name}, found)
		if err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return found, nil
	}
	tasks, err := wf.Spec.Tasks, error(nil)
	if from := wf.Spec.TemplateFrom; from != nil {
		if f.template, err = read(from.Name); err != nil {
			return f, fmt.Errorf("cannot read Workflow %q: %w", from.Name, err)
		}
		if f.template != nil {
			tasks = f.template.Spec.Tasks
		}
	}
	f.library, err = taskgraph.Collect(tasks, read)
	return f, err
}
