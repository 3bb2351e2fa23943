// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/scheduling"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// owner names the controller.
const owner = "schedule"

const (
	// longestSleep is when the clock is looked at again at the latest: a timer does not follow a clock that is set.
	longestSleep = time.Hour
	// again is how soon a decision that was overtaken is made anew.
	again = 100 * time.Millisecond
)

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Gate wraps the reconciler, to hold it back until plugins are loaded.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Now tells the time.
	Now func() time.Time
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller looks after the schedules of Applications.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
	events *event.Recorder
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	c := &Controller{Deps: deps, client: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner))}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.Application{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, recordChanged))).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.ofPlugin),
			builder.WithPredicates(pluginindex.PluginChanged)).
		WithOptions(deps.Options).
		Complete(deps.Gate(c))
}

// recordChanged passes Applications whose record of schedules somebody wrote.
var recordChanged = predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
	return e.ObjectOld.GetAnnotations()[platformv1.SchedulesAnnotation] !=
		e.ObjectNew.GetAnnotations()[platformv1.SchedulesAnnotation]
}}

// ofPlugin wakes the Applications whose schedules the templates of a plugin may have to do with.
func (c *Controller) ofPlugin(ctx context.Context, obj client.Object) []reconcile.Request {
	made := pluginindex.Dependents(ctx, c.client, &platformv1.ApplicationList{}, obj)
	return pluginindex.Requests(slices.DeleteFunc(made,
		func(app client.Object) bool { return len(app.(*platformv1.Application).Spec.Schedules) == 0 }))
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	app := &platformv1.Application{}
	if err := c.client.Get(ctx, request.NamespacedName, app); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	plan, err := c.plan(ctx, c.known, app)
	if err != nil || settled(app, plan) {
		return c.sleep(plan), err
	}
	// Something is to be made, or to be remembered: on what is so, not on what the cache has.
	if err := c.live.Get(ctx, request.NamespacedName, app); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if plan, err = c.plan(ctx, c.present, app); err != nil || settled(app, plan) {
		return c.sleep(plan), err
	}
	err = c.carryOut(ctx, app, plan)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return c.sleep(plan), client.IgnoreNotFound(err)
}

// plan decides on the Operations that a lister has.
func (c *Controller) plan(ctx context.Context, list lister, app *platformv1.Application) (scheduling.Plan, error) {
	if !app.DeletionTimestamp.IsZero() || len(app.Spec.Schedules) == 0 {
		return scheduling.Plan{}, nil
	}
	made, err := observe(ctx, list, app)
	if err != nil {
		return scheduling.Plan{}, err
	}
	state, _ := c.Index.Get(app.Spec.Plugin, app.Spec.PluginVersion)
	return scheduling.For(app, scheduling.Facts{Now: c.Now(), Operations: made,
		Templates: opsflow.TemplatesFor(app, state.Bundle)}), nil
}

// settled says whether a plan has nothing to make and nothing to remember. An Application that goes keeps its record.
func settled(app *platformv1.Application, plan scheduling.Plan) bool {
	return !app.DeletionTimestamp.IsZero() || len(plan.Runs) == 0 &&
		plan.Records.String() == app.Annotations[platformv1.SchedulesAnnotation]
}

func (c *Controller) sleep(plan scheduling.Plan) reconcile.Result {
	if plan.Next.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: min(max(plan.Next.Sub(c.Now()), time.Millisecond), longestSleep)}
}
