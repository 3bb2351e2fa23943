// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/foreign"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// owner is the field owner of all that this controller applies.
const owner = "component"

// refusedRecheck is how soon pods that the API server refused are tried again.
const refusedRecheck = 30 * time.Second

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Settings of the operator that rendering depends on; they can change.
	Settings *settings.Live
	// Certificates is the way to cert-manager.
	Certificates *foreign.Kinds
	// Monitors is the way to the PodMonitors of the Prometheus Operator.
	Monitors *foreign.Kinds
	// Routes is the way to the HTTPRoutes of the Gateway API.
	Routes *foreign.Kinds
	// Kinds that compile to Applications.
	Kinds map[schema.GroupKind]typed.Registration
	// Domain that this operator serves.
	Domain string
	// Ops reaches the ops agents, where pods are members of one cluster.
	Ops agentclient.OpsDialer
	// Now tells the time; time.Now in production.
	Now func() time.Time
	// Namespace of the operator, which calls the agents.
	Namespace string
	// Gate wraps the reconciler, to hold it back until plugins are loaded.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller reconciles Components.
type Controller struct {
	Deps
	client client.Client
	frame  *frame.Frame[*platformv1.Component]
	// live reads what the cache does not hold.
	live  client.Reader
	apply *apply.Applier
	// issue applies objects of kinds that others define.
	others *apply.Applier
	events *event.Recorder
	// editor changes the objects that declare Applications.
	editor outermost.Editor
	// reverter takes edits of sets back.
	reverter edits.Reverter
	// rendered components that are at work.
	rendered rendered
	// known is what was found out about members.
	known known
}

// Setup registers the controller with a manager. It returns who forecasts what the controller would do.
func Setup(mgr ctrl.Manager, deps Deps) (Forecast, error) {
	c := &Controller{
		Deps:   deps,
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner)),
		apply:  apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
		others: apply.NewWithReader(deps.Certificates.Client(), deps.Certificates.Live(), owner),
	}
	c.editor = outermost.Editor{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: deps.Index, Kinds: deps.Kinds, Settings: deps.Settings,
		Domain: deps.Domain, Owner: owner, Cause: "an edit of a WorkloadSet",
	}
	c.reverter = edits.Reverter{Client: c.client, Apply: c.apply, Events: c.events, Owner: owner}
	c.frame, c.rendered = frame.New(c.client, c.work, finish).AtOnce(membershipUrgent), newRendered()
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &platformv1.Backup{}, partsField, partsOf)
	if err != nil {
		return nil, fmt.Errorf("cannot index Backups: %w", err)
	}
	made := queue.Made(mgr, &platformv1.Component{}, nil)
	return c.forecast, ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.Component{}).
		Watches(&platformv1.WorkloadSet{}, queue.OwnerOf(mgr, &platformv1.Component{})).
		Watches(&corev1.Service{}, made).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.ofMember), builder.WithPredicates(memberMoved)).
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(c.ofBackup), builder.WithPredicates(begunOrEnded)).
		Watches(&policyv1.PodDisruptionBudget{}, made, builder.WithPredicates(specChanged)).
		Watches(&networkingv1.NetworkPolicy{}, made).
		Watches(&networkingv1.Ingress{}, made, builder.WithPredicates(specChanged)).
		Watches(&rbacv1.Role{}, made).
		Watches(&rbacv1.RoleBinding{}, made).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, made, builder.WithPredicates(autoscalerChanged)).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.ofPlugin),
			builder.WithPredicates(pluginindex.PluginChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofIssued),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(c.ofTrust), builder.WithPredicates(onlyMade)).
		WatchesRawSource(deps.Certificates.Source("Component")).
		WatchesRawSource(deps.Settings.Source(c.all)).
		WithOptions(deps.Options).
		Complete(deps.Gate(c))
}

// specChanged leaves out what Kubernetes writes into the status of budgets with each pod that comes or goes.
var specChanged = predicate.GenerationChangedPredicate{}

// ofPlugin wakes the Components that are made from a plugin whose state changed.
func (c *Controller) ofPlugin(ctx context.Context, obj client.Object) []reconcile.Request {
	return pluginindex.Requests(pluginindex.Dependents(ctx, c.client, &platformv1.ComponentList{}, obj))
}

func requestsFor(list platformv1.ComponentList) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// all wakes every Component: what they are rendered with changed.
func (c *Controller) all(ctx context.Context) []reconcile.Request {
	var list platformv1.ComponentList
	if err := c.client.List(ctx, &list); err != nil {
		return nil
	}
	return requestsFor(list)
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if c.known.has(request.NamespacedName) &&
		apierrors.IsNotFound(c.client.Get(ctx, request.NamespacedName, &platformv1.Component{})) {
		c.known.forget(request.NamespacedName)
	}
	return c.frame.Reconcile(ctx, request, &platformv1.Component{})
}

func (c *Controller) work(ctx context.Context, component *platformv1.Component) outcome.Outcome {
	if !component.DeletionTimestamp.IsZero() {
		c.known.forget(client.ObjectKeyFromObject(component))
		return outcome.Waiting(platformv1.ReasonDeleting, "what it owns is being removed")
	}
	f, err := c.observe(ctx, component)
	if err != nil {
		return outcome.Failed(err)
	}
	for _, set := range f.sets {
		if err := c.apply.Keep(ctx, set, set.Spec.DeletionPolicy, component.Spec.DeletionPolicy); err != nil {
			return apply.Outcome(err)
		}
	}
	if component.Spec.Suspend {
		report(component, f, nil)
		return c.hold(ctx, f)
	}
	output, refused := c.plan(component, f)
	report(component, f, output)
	if refused != nil {
		return *refused
	}
	if o := c.spare(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	m, err := c.observeMembers(ctx, component, f, output)
	if err != nil {
		return outcome.Failed(err)
	}
	if output, err = m.held(f, output).WithAddresses(f.services); err != nil {
		return outcome.Failed(err)
	}
	return conditions.Worst(c.bring(ctx, component, f, output), c.reconcileMembers(ctx, component, m))
}

// bring brings about what was rendered, and says how far that is.
func (c *Controller) bring(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	if o := c.carry(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	if o := c.certify(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	if o := c.mountable(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	if o := c.preflight(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	if o := c.act(ctx, component, f, output); o.Kind() != outcome.KindDone {
		return o
	}
	// What act found to be as wanted may be what a turn before wrote, and the cache have got since this one began: the
	// state is judged by no older image, and the rest of the status is of the same one.
	if err := c.observeSets(ctx, component, f); err != nil {
		return outcome.Failed(err)
	}
	report(component, f, output)
	return c.retire(ctx, f, settle(component, f, output)).Within(c.monitor(ctx, component, f, output.PodMonitor)).
		Within(c.route(ctx, component, f, output))
}
