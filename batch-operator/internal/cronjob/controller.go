// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
)

const (
	// owner names the controller.
	owner = "cronjob"
	// domain of the operator.
	domain = "batch"
	// longestSleep is after how long a CronJob is looked at again at most, without a request: a clock that was set
	// forward is noticed by then.
	longestSleep = 10 * time.Minute
)

// Kind is the controller of CronJobs, for operator.Options.
type Kind struct {
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

var _ operator.Judge = Kind{}

// Object implements operator.Controller.
func (Kind) Object() client.Object { return &batchv1.CronJob{} }

// Judge implements operator.Judge. Tasks of a Workflow are judged when they are read.
func (Kind) Judge(obj client.Object, s operator.ControllerSettings) error {
	cj := obj.(*batchv1.CronJob)
	if cj.Spec.Task.Workflow != nil {
		_, err := scheduleOf(cj)
		return err
	}
	_, _, err := compile(cj, taskSource{}, s.CheckTemplate)
	return err
}

// Setup implements operator.Controller.
func (k Kind) Setup(mgr ctrl.Manager, s operator.ControllerSettings) error {
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("cannot index what CronJobs are woken by: %w", err)
	}
	c := &Controller{client: mgr.GetClient(), live: mgr.GetAPIReader(), check: s.CheckTemplate, now: k.Now}
	if c.now == nil {
		c.now = time.Now
	}
	c.apply = apply.NewWithReader(c.client, c.live, owner)
	c.locks = semaphore.New(c.client, c.live, owner, c.now)
	c.frame = frame.NewReporting(c.client, c.work).Counting(owner)
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&batchv1.CronJob{}).
		Owns(&platformv1.Operation{}, builder.WithPredicates(runMoved)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.waiting),
			builder.WithPredicates(semaphore.Released)).
		Watches(&batchv1.Workflow{}, handler.EnqueueRequestsFromMapFunc(c.waiting),
			builder.WithPredicates(semaphore.Paused)).
		Watches(&batchv1.CronJob{}, handler.EnqueueRequestsFromMapFunc(c.dependents),
			builder.WithPredicates(dependencyMoved)).
		Watches(&batchv1.Workflow{}, handler.EnqueueRequestsFromMapFunc(c.users), builder.WithPredicates(workflowMoved)).
		WithOptions(queue.Options(s.Workers)).
		Complete(c)
}

// Controller creates the runs of CronJobs.
type Controller struct {
	client client.Client
	live   client.Reader
	apply  *apply.Applier
	locks  *semaphore.Locker
	// check says what is wrong with an inline template.
	check func(text string) error
	now   func() time.Time
	frame *frame.Frame[*batchv1.CronJob]
}

// runMoved passes Operations that were deleted, have ended, or wait for a mutex or a semaphore, and those with other
// news of what keeps their pods from starting.
var runMoved = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool {
		op := e.Object.(*platformv1.Operation)
		return op.Status.Phase.Ended() || semaphore.Waits(op)
	},
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Operation), e.ObjectNew.(*platformv1.Operation)
		return before.Status.Phase.Ended() != after.Status.Phase.Ended() || obstacleOf(before) != obstacleOf(after)
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// dependencyMoved passes CronJobs with another last success or failure, those that depend on others or on themselves
// otherwise than before, and those that come and go.
var dependencyMoved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*batchv1.CronJob), e.ObjectNew.(*batchv1.CronJob)
		return !before.Status.LastSuccessTime.Equal(after.Status.LastSuccessTime) ||
			!failedAt(before).Equal(failedAt(after)) ||
			!slices.Equal(leads(before), leads(after)) || invalidDependency(before) != invalidDependency(after)
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// workflowMoved passes Workflows with another spec or phase, and those that come and go.
var workflowMoved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*batchv1.Workflow), e.ObjectNew.(*batchv1.Workflow)
		return before.Generation != after.Generation || before.Status.Phase != after.Status.Phase
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &batchv1.CronJob{})
}

// work creates the runs that are due, and fills in the status.
func (c *Controller) work(ctx context.Context, cj *batchv1.CronJob) outcome.Outcome {
	if !cj.DeletionTimestamp.IsZero() {
		return outcome.Done()
	}
	f, err := c.observe(ctx, cj)
	if err != nil {
		return outcome.Failed(err)
	}
	tellDependencies(cj, f)
	// Runs that wait have their turn whatever the spec is by now: others may be behind them.
	waiting, err := c.synchronize(ctx, cj, f.runs)
	if err != nil {
		return outcome.Failed(err)
	}
	tasks, err := c.observeTasks(ctx, cj)
	if err != nil {
		return outcome.Failed(err)
	}
	schedule, text, err := compile(cj, tasks, c.check)
	if err != nil {
		return refuse(cj, err, waiting, f)
	}
	p := decide(cj, schedule, f)
	if len(waiting) > 0 {
		p.wakeAt(f.now.Add(semaphore.Poll), f.now)
	}
	if err := c.act(ctx, cj, text, p); err != nil {
		o := apply.Outcome(err)
		if o.Kind() == outcome.KindStalled {
			return report(cj, o)
		}
		return o
	}
	cj.Status = p.status
	tellActive(cj, waiting, f.runs)
	wake := longestSleep
	if !p.wake.IsZero() {
		wake = min(wake, p.wake.Sub(f.now))
	}
	return report(cj, outcome.Done()).Within(max(wake, time.Millisecond))
}
