// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// owner names the controller.
const owner = "operation"

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Dialer reaches the process managers.
	Dialer agentclient.Dialer
	// Ops reaches the ops agents.
	Ops agentclient.OpsDialer
	// Kinds that compile to Applications.
	Kinds map[schema.GroupKind]typed.Registration
	// Settings that pods would be rendered with.
	Settings *settings.Live
	// Forecast says what would be done, for dry runs.
	Forecast Forecasts
	// Locks of disruptions, which the WorkloadSet and Operation controllers share.
	Locks *disruption.Locks
	// Domain that this operator serves.
	Domain string
	// Workers is how many Operations are looked at at a time; queue.DefaultWorkers when nil.
	Workers *queue.Limit
	// Gate wraps the reconciler, to hold it back until plugins are loaded; nil for none.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Now tells the time; time.Now when nil.
	Now func() time.Time
	// Traces tells of Operations that ended; nil for nobody.
	Traces *telemetry.Traces
	// Dial opens the connections of calls that steps make; one that refuses the node's own addresses when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Controller reconciles Operations.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
	config *rest.Config
	// editor changes the objects that declare Applications.
	editor   outermost.Editor
	events   *event.Recorder
	starting disruption.Locks
	started  started
	written  versions
	// pace of what is written of records while the instance is on its way.
	pace *frame.Pace
	// calls that steps make.
	calls *calls
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	c := &Controller{
		Deps:   deps,
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		config: mgr.GetConfig(),
		editor: outermost.Editor{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: deps.Index, Kinds: deps.Kinds, Settings: deps.Settings,
			Domain: deps.Domain, Owner: owner, Cause: "an Operation",
		},
		events: event.New(mgr.GetEventRecorder(owner)),
		pace:   frame.NewPace(deps.Now),
		calls:  newCalls(deps.Dial),
	}
	if err := records.IndexUnfinished(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(context.Background(), &platformv1.Operation{}, finishedField, finishedOf); err != nil {
		return fmt.Errorf("cannot index Operations that have ended: %w", err)
	}
	var reconciler reconcile.Reconciler = c
	if deps.Gate != nil {
		reconciler = deps.Gate(c)
	}
	if err := c.setupHistory(mgr); err != nil {
		return err
	}
	build := ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.Operation{}, builder.WithPredicates(c.atWork())).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.queuedBehind), builder.WithPredicates(ended)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.ofApplication), builder.WithPredicates(podChanged)).
		Watches(&platformv1.WorkloadSet{}, handler.EnqueueRequestsFromMapFunc(c.ofApplication),
			builder.WithPredicates(setChanged)).
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(c.ofApplication),
			builder.WithPredicates(backupMoved)).
		Watches(&platformv1.Application{}, handler.EnqueueRequestsFromMapFunc(c.ofApplication),
			builder.WithPredicates(reportChanged)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.parentOf), builder.WithPredicates(moved)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.ofApplication), builder.WithPredicates(lined))
	for _, kind := range deps.Kinds {
		build.Watches(kind.Object(), handler.EnqueueRequestsFromMapFunc(c.ofDeclared(kind)))
	}
	build.WatchesRawSource(source.Channel(c.calls.ended, &handler.EnqueueRequestForObject{}))
	return build.WithOptions(queue.Options(deps.Workers)).Complete(reconciler)
}

// giveUp ends an Operation that can never run, or not go on.
func (c *Controller) giveUp(ctx context.Context, op *platformv1.Operation, seen *observation,
	refusal *opsflow.Refusal) (reconcile.Result, error) {
	if err := c.leaveNothing(ctx, op); err != nil {
		return reconcile.Result{}, err
	}
	if refusal.Reason == platformv1.ReasonTargetNotFound && opsflow.Running(op) {
		return c.carryOut(ctx, op, seen, opsflow.Abandon(op, c.Now()))
	}
	return c.carryOut(ctx, op, seen, opsflow.Fail(op, refusal, c.Now()))
}

// trace tells of an Operation that has ended. The cache leaves out of it what happened in its steps.
func (c *Controller) trace(ctx context.Context, op *platformv1.Operation) error {
	if !c.Traces.Wants(op) {
		return nil
	}
	whole := &platformv1.Operation{}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(op), whole); err != nil {
		return client.IgnoreNotFound(err)
	}
	c.Traces.Ended(whole)
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	op := &platformv1.Operation{}
	if err := c.client.Get(ctx, request.NamespacedName, op); err != nil {
		c.written.forget(request.NamespacedName)
		c.pace.Forget(request.NamespacedName)
		c.calls.forget(request.NamespacedName)
		c.Traces.Forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case c.written.newerThan(op):
		// The cache is behind our own write, which wakes us again.
		return reconcile.Result{}, nil
	case !op.DeletionTimestamp.IsZero():
		return c.delete(ctx, op)
	case opsflow.Finished(op):
		c.calls.forget(request.NamespacedName)
		return reconcile.Result{}, c.trace(ctx, op)
	case op.Spec.Cancel && (!opsflow.Running(op) || opsflow.StandsAside(op) &&
		(opsflow.RecordsSpec(op) || opsflow.HasDoneNothing(op))):
		// Nothing was done: whatever is wrong with its target does not matter.
		return c.carryOut(ctx, op, nil, opsflow.Wait(op, c.applicationOf(ctx, op), outcome.Done(), c.Now()))
	}
	c.calls.retain(op)
	seen, refusal, err := c.observe(ctx, op)
	switch {
	case errors.Is(err, errUnclaimed):
		return reconcile.Result{RequeueAfter: unclaimedRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	case refusal != nil:
		return c.giveUp(ctx, op, seen, refusal)
	case !opsflow.WaitsInQueue(op, seen.facts):
		return c.carryOut(ctx, op, seen, opsflow.Next(op, seen.facts))
	}
	if opsflow.IsInline(op) {
		return c.startInline(ctx, op, seen)
	}
	return c.start(ctx, op, seen)
}
