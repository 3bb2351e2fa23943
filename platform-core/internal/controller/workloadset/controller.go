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

	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/disruption"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// owner is the field owner of all that this controller applies.
const owner = "workloadset"

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
	// live reads from the API server: what is needed too seldom to be cached, or must not be stale.
	live   client.Reader
	apply  *apply.Applier
	events *event.Recorder
	// rendered pods of sets that are at work.
	rendered rendered
	// resizable says whether the server gives pods other resources while they run.
	resizable bool
	// retries are the waits for calls that failed to be made again, by pod.
	retries waits
	// refusals are the pods that cannot be resized.
	refusals refusals
	// candidateWaits are the waits of primaries for candidates.
	candidateWaits waits
	// primaries is the in-memory state of sets whose primary the engine names.
	primaries primaryStates
	// requests is the queue of the controller.
	requests workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Setup registers the controller with a manager. It returns who forecasts what the controller would do.
func Setup(mgr ctrl.Manager, deps Deps) (Forecast, error) {
	resizable, err := canResize(mgr)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		Deps:      deps,
		client:    mgr.GetClient(),
		live:      mgr.GetAPIReader(),
		apply:     apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
		events:    event.New(mgr.GetEventRecorder(owner)),
		resizable: resizable,
	}
	return c.forecast, setup(mgr, c)
}

func setup(mgr ctrl.Manager, c *Controller) error {
	c.frame, c.rendered = frame.New(c.client, c.work, finish).AtOnce(statusProgressed), newRendered()
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

// all are the requests for every set.
func (c *Controller) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var sets platformv1.WorkloadSetList
	if err := c.client.List(ctx, &sets); err != nil {
		return nil // The cache has been started: it does not fail.
	}
	requests := make([]reconcile.Request, len(sets.Items))
	for i := range sets.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&sets.Items[i])
	}
	return requests
}

// reportChanged says whether the report of a pod changed, its role included, or the pod is terminating.
func reportChanged(before, after client.Object) bool {
	return before.GetAnnotations()[platformv1.ReportAnnotation] != after.GetAnnotations()[platformv1.ReportAnnotation] ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
}

// ofClaim maps a claim to its WorkloadSet. Claims have no owner reference, so
// that they outlive their set.
func ofClaim(_ context.Context, claim client.Object) []reconcile.Request {
	labels := claim.GetLabels()
	name := platformv1.WorkloadSetNameFor(labels[platformv1.ApplicationLabel], labels[platformv1.ComponentLabel],
		labels[platformv1.SetLabel])
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: claim.GetNamespace(), Name: name}}}
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &platformv1.WorkloadSet{})
}

func (c *Controller) work(ctx context.Context, set *platformv1.WorkloadSet) outcome.Outcome {
	if !set.DeletionTimestamp.IsZero() {
		c.retries.forgetPods(client.ObjectKeyFromObject(set))
		c.refusals.forgetPods(client.ObjectKeyFromObject(set))
		c.Locks.ForgetSet(client.ObjectKeyFromObject(set))
		c.primaries.forget(client.ObjectKeyFromObject(set))
		c.candidateWaits.forget(client.ObjectKeyFromObject(set))
		return c.delete(ctx, set)
	}
	asking, err := c.asks(ctx, set)
	if err != nil {
		return outcome.Failed(err)
	}
	f, err := c.observe(ctx, set)
	if err != nil {
		return outcome.Failed(err)
	}
	defer func(asked *platformv1.SetData) { set.Spec.Data = asked }(set.Spec.Data)
	if f, err = c.keepCurrentGeneration(ctx, set, f); err != nil {
		return outcome.Failed(err)
	}
	f.asking = asking
	if err := c.sweepPrepared(ctx, set, f); err != nil {
		return outcome.Failed(err)
	}
	if o := c.reconcileGeneration(ctx, set, f); o != nil {
		report(set, f)
		return *o
	}
	changing, err := c.reconcilePrimary(ctx, set, f)
	if err != nil {
		return outcome.Failed(err)
	}
	c.comeBack(set, f.primaryWake)
	ctx = agentclient.Within(ctx, recordOf(f.primary).Term)
	steps := c.plan(set, f)
	if rollout.Careful(f.rollout, steps) || f.election.State == rollout.ElectionChanged {
		if err := c.readElection(ctx, set, f); err != nil {
			return outcome.Failed(err)
		}
		if err := c.observePods(ctx, c.live, set, f); err != nil {
			return outcome.Failed(err)
		}
		steps = c.plan(set, f)
	}
	steps, release, err := c.acquireDisruption(ctx, set, f, steps)
	if err != nil {
		return outcome.Failed(err)
	}
	defer release()
	report(set, f)
	if f.awaits == "" && len(f.rollout.Held()) > 0 {
		f.wakeAfter(f.opening.Sub(f.now))
	}
	o := c.act(ctx, set, f, steps)
	if o.Kind() == outcome.KindDone {
		o = settle(set, f, steps)
	}
	if o.Kind() == outcome.KindDone && awaitsObjects(set, f) {
		o = c.advance(ctx, set, f)
	}
	if f.invalidGeneration != "" {
		o = outcome.Worst(outcome.Stalled(platformv1.ReasonInvalidSpec, f.invalidGeneration), o)
	}
	if o = sayFirst(f, outcome.Worst(changing, o)); o.Kind() < outcome.KindDeferred && f.primaryWake == 0 {
		return o
	}
	return o.Within(f.wake)
}

// comeBack requeues the set for the primary, whatever the outcome of the rest is: with an error the requeue time of a
// result is ignored, and a failover must not wait for the backoff of another failure. Of two requeues the earlier one
// counts.
func (c *Controller) comeBack(set *platformv1.WorkloadSet, after time.Duration) {
	if after > 0 {
		c.requests.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)}, after)
	}
}
