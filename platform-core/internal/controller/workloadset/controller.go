// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/generations"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/primary"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/record"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"
)

// owner is the field owner of all that this controller applies.
const owner = facts.Owner

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Authority issues the agents' certificates.
	Authority *pki.Authority
	// Reissue tells that the authority trusts or signs with something else; nil in tests that have one for ever.
	Reissue <-chan crevent.GenericEvent
	// Dialer reaches the process managers.
	Dialer agentclient.Dialer
	// Ops reaches the ops agents.
	Ops agentclient.OpsDialer
	// Members reaches the process managers about who may write.
	Members agentclient.PermissionDialer
	// Settings that Jobs are rendered with.
	Settings *settings.Live
	// Locks of disruptions, which the WorkloadSet and Operation controllers share.
	Locks *disruption.Locks
	// Options of the controller: workers and rate limits.
	Options controller.Options
	// Now tells the time; time.Now in production.
	Now func() time.Time
}

// Controller reconciles WorkloadSets.
type Controller struct {
	Deps
	client client.Client
	frame  *frame.Frame[*platformv1.WorkloadSet]
	// live reads from the API server: what must not be stale.
	live  client.Reader
	apply *apply.Applier
	// The sub-reconcilers.
	observer    facts.Observer
	pods        *pods.Reconciler
	volumes     *volumes.Reconciler
	generations *generations.Reconciler
	primary     *primary.Reconciler
	// requests is the queue of the controller.
	requests workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// access is how a controller reaches the API server.
type access struct {
	client client.Client
	live   client.Reader
	events *event.Recorder
	// resizable says whether the server gives pods other resources while they run.
	resizable bool
}

func newController(deps Deps, to access) *Controller {
	c := &Controller{Deps: deps, client: to.client, live: to.live,
		apply:    apply.NewWithReader(to.client, to.live, owner),
		observer: facts.Observer{Cached: to.client, Live: to.live, Now: deps.Now},
	}
	c.volumes = &volumes.Reconciler{Observer: c.observer, Client: to.client, Apply: c.apply, Events: to.events,
		Settings: deps.Settings}
	c.primary = &primary.Reconciler{Client: to.client, Live: to.live, Events: to.events, Ops: deps.Ops,
		Members: deps.Members, Now: deps.Now}
	c.generations = &generations.Reconciler{Observer: c.observer, Client: to.client, Events: to.events,
		Forget: c.primary.Forget}
	c.pods = pods.New(pods.Deps{Client: to.client, Live: to.live, Apply: c.apply, Events: to.events,
		Authority: deps.Authority, Dialer: deps.Dialer, Locks: deps.Locks, Resizable: to.resizable, Claims: c.volumes,
		Primary: c.primary})
	c.primary.Roles = c.pods
	c.frame = frame.New(c.client, c.work, finish).AtOnce(statusProgressed).WhenGone(c.forget)
	return c
}

// Setup registers the controller with a manager. It returns who forecasts what the controller would do.
func Setup(mgr ctrl.Manager, deps Deps) (Forecast, error) {
	resizable, err := pods.CanResize(mgr)
	if err != nil {
		return nil, err
	}
	c := newController(deps, access{client: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner)), resizable: resizable})
	return c.forecast, setup(mgr, c)
}

func setup(mgr ctrl.Manager, c *Controller) error {
	made := queue.Made(mgr, &platformv1.WorkloadSet{}, nil)
	building := ctrl.NewControllerManagedBy(mgr).Named(owner)
	if c.Reissue != nil {
		building = building.WatchesRawSource(source.Channel(c.Reissue, handler.EnqueueRequestsFromMapFunc(c.all)))
	}
	return building.
		WatchesRawSource(source.Func(c.serve)).
		For(&platformv1.WorkloadSet{}).
		Watches(&corev1.Pod{}, queue.Made(mgr, &platformv1.WorkloadSet{}, reportChanged)).
		Watches(&corev1.Secret{}, made).
		Watches(&corev1.ConfigMap{}, made).
		Watches(&batchv1.Job{}, made).
		Watches(&corev1.ServiceAccount{}, made).
		Watches(&rbacv1.Role{}, made).
		Watches(&rbacv1.RoleBinding{}, made).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(c.ofOperation), builder.WithPredicates(leftPods)).
		Watches(&platformv1.Component{}, handler.EnqueueRequestsFromMapFunc(c.ofEarlier),
			builder.WithPredicates(updatedOrGone)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(ofRequest), builder.WithPredicates(over)).
		WithOptions(c.Options).
		Complete(c)
}

// serve is told the queue before there is any work.
func (c *Controller) serve(_ context.Context, requests workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	c.requests = requests
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &platformv1.WorkloadSet{})
}

// state is what one reconcile knows: the facts, what is drafted on them, and the verdicts of the sub-reconcilers.
type state struct {
	*facts.Draft
	pods    *pods.Verdict
	primary *primary.Verdict
	// invalidGeneration says why the pods cannot change to the generation of the spec: then the facts are of the
	// generation that they have. Empty for none.
	invalidGeneration string
}

// observe reads the facts of a set and has the sub-reconcilers assess them.
func (c *Controller) observe(ctx context.Context, set *platformv1.WorkloadSet) (*state, error) {
	f, err := c.observer.Observe(ctx, set)
	if err != nil {
		return nil, err
	}
	verdict := pods.Begin(set, f)
	st := &state{Draft: verdict.Draft, pods: verdict, primary: &primary.Verdict{Draft: verdict.Draft}}
	return st, c.assess(ctx, set, st, f)
}

// assess has the sub-reconcilers assess facts that were read anew.
func (c *Controller) assess(ctx context.Context, set *platformv1.WorkloadSet, st *state, f *facts.Facts) error {
	st.Facts = f
	if err := c.pods.Assess(ctx, set, st.pods); err != nil {
		return err
	}
	c.primary.Observe(set, st.primary)
	// The mode comes last: pods that are to end for other volumes are compared all the same.
	st.Rollout.Mode = f.Mode
	return nil
}

// forget drops what is remembered of a set that is gone: one that keeps its volumes goes without a turn before.
func (c *Controller) forget(_ context.Context, set types.NamespacedName) outcome.Outcome {
	c.pods.ForgetSet(set)
	c.primary.ForgetSet(set)
	return outcome.Done()
}

func (c *Controller) work(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	if !set.DeletionTimestamp.IsZero() {
		c.forget(ctx, client.ObjectKeyFromObject(set))
		return c.delete(ctx, set)
	}
	asking, err := c.primary.Asks(ctx, set)
	if err != nil {
		return outcome.Failed(err)
	}
	st, err := c.observe(ctx, set)
	if err != nil {
		return outcome.Failed(err)
	}
	defer func(asked *platformv1.SetData) { set.Spec.Data = asked }(set.Spec.Data)
	if st, err = c.keepCurrentGeneration(ctx, set, st); err != nil {
		return outcome.Failed(err)
	}
	st.primary.Asking = asking
	if err := c.generations.Sweep(ctx, set, st.Facts); err != nil {
		return outcome.Failed(err)
	}
	if o := c.reconcileGeneration(ctx, set, st); o != nil {
		report(set, st)
		return *o
	}
	changing, err := c.primary.Reconcile(ctx, set, st.primary, dataOf(volumes.Plan(set, st.Facts)))
	if err != nil {
		return outcome.Failed(err)
	}
	c.comeBack(set, st.primary.Again)
	ctx = agentclient.Within(ctx, record.Of(st.Primary).Term)
	steps, release, err := c.plan(ctx, set, st)
	if err != nil {
		return outcome.Failed(err)
	}
	defer release()
	report(set, st)
	if st.Awaits.What == "" && len(st.Rollout.Held()) > 0 {
		st.WakeAfter(st.Opening.Sub(st.Now))
	}
	o := c.act(ctx, set, st, steps)
	if o.Kind() == outcome.KindDone {
		o = settle(set, st, steps)
	}
	if o.Kind() == outcome.KindDone && volumes.Plan(set, st.Facts).Servers {
		o = c.volumes.Advance(ctx, set, st.Facts)
	}
	if st.invalidGeneration != "" {
		o = outcome.Worst(outcome.Stalled(platformv1.ReasonInvalidSpec, st.invalidGeneration), o)
	}
	if o = sayFirst(st, outcome.Worst(changing, o)); o.Kind() < outcome.KindDeferred && st.primary.Again == 0 {
		return o
	}
	return o.Within(st.Wake)
}

// keepCurrentGeneration makes this reconcile work with the generation of volumes that the pods have, failover included,
// if they cannot change to the generation of the spec. It changes the spec in memory for this reconcile.
func (c *Controller) keepCurrentGeneration(ctx context.Context, set *platformv1.WorkloadSet,
	st *state) (*state, error) {
	f, verdict, err := c.generations.Confirm(ctx, set, st.Facts)
	if err != nil {
		return st, err
	}
	if verdict.Invalid == "" {
		st.Facts = f
		return st, nil
	}
	set.Spec.Data = verdict.Keeps
	staying, err := c.observe(ctx, set)
	if err == nil {
		staying.Facts, staying.invalidGeneration = staying.WithAsked(f.Asked), verdict.Invalid
	}
	return staying, err
}

// reconcileGeneration has the pods go to another generation of volumes. It returns nil if nothing is to be done.
func (c *Controller) reconcileGeneration(ctx context.Context, set *platformv1.WorkloadSet, st *state) *outcome.Outcome {
	f, o := c.generations.Reconcile(ctx, set, st.Facts)
	if f != st.Facts {
		if err := c.assess(ctx, set, st, f); err != nil {
			return new(outcome.Failed(err))
		}
	}
	return o
}

// dataOf says whether the data of a set has yet to come, before any pod and any primary.
func dataOf(verdict volumes.Verdict) primary.Data {
	if verdict.Before {
		return primary.DataFirst
	}
	return primary.DataThere
}

// plan returns the steps of the rollout that may be taken now. Where one disrupts a pod, or adds a primary label, it
// plans once more on live reads. The returned function releases the disruption lock.
func (c *Controller) plan(ctx context.Context, set *platformv1.WorkloadSet, st *state) (steps []rollout.Step,
	release func(), err error) {
	steps = c.primary.Plan(set, st.Draft)
	if rollout.Careful(st.Rollout, steps) || st.primary.Election.State == rollout.ElectionChanged {
		f, err := c.observer.LiveElection(ctx, set, st.Facts)
		if err != nil {
			return nil, nil, err
		}
		if f, err = c.observer.LivePods(ctx, set, f); err != nil {
			return nil, nil, err
		}
		if err := c.assess(ctx, set, st, f); err != nil {
			return nil, nil, err
		}
		steps = c.primary.Plan(set, st.Draft)
	}
	return c.pods.Acquire(ctx, set, st.pods, steps)
}

// comeBack requeues the set for the primary, whatever the outcome of the rest is: with an error the requeue time of a
// result is ignored, and a failover must not wait for the backoff of another failure. Of two requeues the earlier one
// counts.
func (c *Controller) comeBack(set *platformv1.WorkloadSet, after time.Duration) {
	if after > 0 {
		c.requests.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)}, after)
	}
}
