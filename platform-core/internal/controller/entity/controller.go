// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/secretwatch"
	"github.com/zeroinfra/platform-core/sdk/event"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
)

// owner names the controller.
const owner = "entity"

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Dialer reaches the ops agents.
	Dialer agentclient.EntitiesDialer
	// Interval is how often objects are looked at that nothing was heard of.
	Interval func() time.Duration
	// Workers is how many Applications are looked at at a time; queue.DefaultWorkers when nil.
	Workers *queue.Limit
	// Gate wraps the reconciler, to hold it back until plugins are loaded; nil for none.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

// Controller reconciles the Entities of Applications.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
	events *event.Recorder
	// secrets with passwords; a watcher feeds one controller.
	secrets *secretwatch.Watcher
	memory  memory
}

// Setup registers the controller with a manager.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	secrets, err := secretwatch.New(mgr.GetConfig())
	if err != nil {
		return err
	}
	c := &Controller{Deps: deps, client: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner)), secrets: secrets}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &platformv1.Entity{}, applicationField, byApplication); err != nil {
		return fmt.Errorf("cannot index Entities: %w", err)
	}
	var reconciler reconcile.Reconciler = c
	if deps.Gate != nil {
		reconciler = deps.Gate(c)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		Watches(&platformv1.Entity{}, queue.Gather(gatherTime, requestFor), builder.WithPredicates(asksForMore)).
		Watches(&platformv1.Application{}, handler.EnqueueRequestsFromMapFunc(c.withEntities),
			builder.WithPredicates(applicationChanged)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.withEntities), builder.WithPredicates(podChanged)).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.ofPlugin),
			builder.WithPredicates(pluginindex.PluginChanged)).
		WatchesRawSource(secrets.Source()).
		WithOptions(queue.Options(deps.Workers)).
		Complete(reconciler)
}

// Reconcile implements reconcile.Reconciler. The request names an Application, which may be absent.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen, err := c.observe(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(seen.items) == 0 {
		c.secrets.Release(request.NamespacedName)
		c.memory.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	c.triage(seen)
	worst := c.turn(ctx, seen)
	telemetry.Outcome(owner, worst)
	return worst.Within(seen.again).Result()
}

// turn brings all objects to what is asked, and writes what became of them.
func (c *Controller) turn(ctx context.Context, seen *observation) outcome.Outcome {
	groups := seen.groups()
	for _, group := range groups {
		c.keep(ctx, seen, group)
	}
	worst := c.report(ctx, seen)
	for _, group := range groups {
		seen.rememberItems(group)
		seen.rememberLook(group)
		seen.rememberClaims(group)
		if !group.each {
			seen.rememberProcess(group)
		}
	}
	return worst
}

// spread has the Applications of an operator that was restarted not be looked at all at once for ever.
func spread(interval time.Duration) time.Duration {
	return interval - time.Duration(rand.Int64N(int64(interval)/10+1))
}

// keep brings the objects of one type to what is asked, and reads them back: in one pod, or in each.
func (c *Controller) keep(ctx context.Context, seen *observation, g *group) {
	if g.each {
		c.keepEach(ctx, seen, g)
		return
	}
	pod := podFor(seen.pods, g)
	if pod == nil {
		seen.wait(g, outcome.Waiting(platformv1.ReasonMiddlewareNotReady,
			fmt.Sprintf("component %q of Application %q has no primary now: see its conditions", g.component,
				seen.key.Name)))
		return
	}
	if o := c.ask(ctx, seen, g, pod); o.Kind() != outcome.KindDone {
		seen.wait(g, o)
		return
	}
	seen.rest(g, g)
	c.bring(ctx, seen, g)
}

// ask reads the objects of a type in a pod, and leaves those out that are not due.
func (c *Controller) ask(ctx context.Context, seen *observation, g *group, pod *corev1.Pod) outcome.Outcome {
	if o := c.reach(ctx, seen, g, pod); o.Kind() != outcome.KindDone {
		return o
	}
	for range 2 {
		due, again := seen.due(g, c.Interval())
		states, err := observeAll(ctx, g.agent, g.entityType, due)
		switch {
		case err != nil:
			return unanswered(err)
		case g.answeredBy(pod, states.Starts):
			// Of another process than the pod has reported so far others may be due.
			continue
		}
		seen.lookAgain(again)
		g.states, g.whole, g.items = states.Objects, !g.each && len(due) == len(g.items), due
		return outcome.Done()
	}
	return unanswered(errRestarted)
}

// answeredBy says whether another process answered than was taken for the one that is asked, and takes that for it: the
// report of a pod may be older than the answer. An agent that does not tell which process it was gives 0.
func (g *group) answeredBy(pod *corev1.Pod, starts int64) bool {
	now := processOf(pod, starts)
	if starts == 0 || now == g.instance.now {
		return false
	}
	g.instance.now = now
	return true
}

// bring changes what was read and is not as asked, and reads that back.
func (c *Controller) bring(ctx context.Context, seen *observation, g *group) {
	var changes []*item
	for _, it := range g.items {
		if it.outcome != nil {
			continue
		}
		if decide(it, g.states, g.instance, seen.now); it.intent != "" {
			changes = append(changes, it)
		}
	}
	if turn := inTurn(changes); len(turn) < len(changes) {
		changes = turn
		seen.lookAgain(nextTurn)
	}
	if changes = c.prepare(ctx, changes); len(changes) == 0 {
		return
	}
	ended := c.change(ctx, g.agent, g, changes)
	if len(ended) == 0 {
		return
	}
	c.readBack(ctx, g.agent, g, ended)
	if slices.ContainsFunc(ended, func(it *item) bool { return it.done() || it.release }) {
		seen.changes++
	}
}
