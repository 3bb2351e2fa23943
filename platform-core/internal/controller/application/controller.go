// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/foreign"
	"github.com/zeroinfra/platform-core/internal/outermost"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginindex"
	"github.com/zeroinfra/platform-core/internal/secretwatch"
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
const owner = "application"

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Secrets watches, by name, the Secrets that users supply.
	Secrets *secretwatch.Watcher
	// Certificates is the way to cert-manager.
	Certificates *foreign.Kinds
	// Kinds that compile to Applications.
	Kinds map[schema.GroupKind]typed.Registration
	// Settings that pods would be rendered with, and the GitOps managers.
	Settings *settings.Live
	// Domain that this operator serves.
	Domain string
	// Digest tells one secret text from another without giving it away.
	Digest func(text string) string
	// Gate wraps the reconciler, to hold it back until plugins are loaded.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller reconciles Applications.
type Controller struct {
	Deps
	client client.Client
	frame  *frame.Frame[*platformv1.Application]
	live   client.Reader
	apply  *apply.Applier
	events *event.Recorder
	// editor changes the objects that declare Applications.
	editor outermost.Editor
	// reverter takes edits of Components back.
	reverter edits.Reverter
	// issue applies objects of cert-manager.
	issue *apply.Applier
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	c := &Controller{
		Deps:   deps,
		client: mgr.GetClient(),
		live:   mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner)),
		apply:  apply.NewWithReader(mgr.GetClient(), mgr.GetAPIReader(), owner),
		issue:  apply.NewWithReader(deps.Certificates.Client(), deps.Certificates.Live(), owner),
	}
	c.editor = outermost.Editor{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Index: deps.Index, Kinds: deps.Kinds, Settings: deps.Settings,
		Domain: deps.Domain, Owner: owner, Cause: "an edit of a Component",
	}
	c.reverter = edits.Reverter{Client: c.client, Apply: c.apply, Events: c.events, Owner: owner}
	c.frame = frame.New(c.client, c.work, finish).WhenGone(
		func(_ context.Context, app types.NamespacedName) outcome.Outcome {
			c.Secrets.Release(app)
			return outcome.Done()
		})
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &platformv1.Backup{}, endedField, endedOf)
	if err != nil {
		return fmt.Errorf("cannot index Backups: %w", err)
	}
	made := queue.Made(mgr, &platformv1.Application{}, nil)
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.Application{}).
		Watches(&platformv1.Component{}, queue.OwnerOf(mgr, &platformv1.Application{})).
		Watches(&corev1.Secret{}, made).
		Watches(&platformv1.Plugin{}, handler.EnqueueRequestsFromMapFunc(c.ofPlugin),
			builder.WithPredicates(pluginindex.PluginChanged)).
		// A class that comes or goes can only matter to those that wait for one.
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(c.waitingForClass),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		// What an instance waits for that is to begin with the data of one.
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(c.ofBackup)).
		// What an archive is kept in, and what an instance reads logs from that is to begin at a point in time.
		Watches(&platformv1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(c.ofRepository)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(ofOperation),
			builder.WithPredicates(startsOrEnds)).
		WatchesRawSource(deps.Secrets.Source()).
		// The CA of an issued certificate is part of the binding.
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ofIssued),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(deps.Certificates.Source("Application")).
		WithOptions(deps.Options).
		Complete(deps.Gate(c))
}

// ofPlugin wakes the Applications that are made from a plugin whose state changed.
func (c *Controller) ofPlugin(ctx context.Context, obj client.Object) []reconcile.Request {
	return pluginindex.Requests(pluginindex.Dependents(ctx, c.client, &platformv1.ApplicationList{}, obj))
}

// ofBackup wakes the Applications that wait for a Backup to begin with, and the one that it is of once it has ended
// or a drill has judged it.
func (c *Controller) ofBackup(ctx context.Context, backup client.Object) []reconcile.Request {
	var source []reconcile.Request
	if b := backup.(*platformv1.Backup); len(endedOf(b)) > 0 {
		source = []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: b.Namespace,
			Name: b.Spec.ApplicationRef.Name}}}
	}
	return append(source, c.those(ctx, func(app *platformv1.Application) bool {
		from := app.Spec.RestoreFrom
		return from != nil && from.Backup == backup.GetName() && app.Status.RestoredFrom == nil
	}, client.InNamespace(backup.GetNamespace()))...)
}

func (c *Controller) waitingForClass(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.those(ctx, waitsForClass)
}

// those are the Applications that wait for what has changed.
func (c *Controller) those(ctx context.Context, wait func(*platformv1.Application) bool,
	where ...client.ListOption) []reconcile.Request {
	var list platformv1.ApplicationList
	if err := c.client.List(ctx, &list, append(where, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the Applications that wait for something")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wait(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &platformv1.Application{})
}

func (c *Controller) work(ctx context.Context, app *platformv1.Application) outcome.Outcome {
	if err := c.reportOperation(ctx, app); err != nil {
		return outcome.Failed(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		c.Secrets.Release(client.ObjectKeyFromObject(app))
		return outcome.Waiting(platformv1.ReasonDeleting, "what it owns is being removed")
	}
	taken, before := takenUp(app), conditions.Get(app, platformv1.BackupsVerifiedCondition)
	f, err := c.observe(ctx, app)
	if err != nil {
		return outcome.Failed(err)
	}
	f.taken = taken
	defer c.tellVerified(app, before)
	for _, component := range f.components {
		if err := c.apply.Keep(ctx, component, component.Spec.DeletionPolicy, app.Spec.VolumePolicy()); err != nil {
			return apply.Outcome(err)
		}
	}
	if app.Spec.Suspend {
		report(app, f)
		return c.hold(ctx, f)
	}
	wanted, refused := plan(app, f)
	reportAccepted(app, f, refused)
	report(app, f)
	reportArchive(app, f, refused)
	if refused != nil {
		return *refused
	}
	if o := c.record(ctx, app, f, taken, wanted); o.Kind() != outcome.KindDone {
		return o
	}
	held := gate(app, f, wanted)
	if o := c.act(ctx, app, f, wanted); o.Kind() != outcome.KindDone {
		return o
	}
	app.Status.TakenUpGeneration = nil
	// What act found to be as wanted may be what a turn before wrote, and the cache have got since this one began: the
	// state is judged by no older image, and the rest of the status is of the same one.
	if err := c.observeComponents(ctx, app, f); err != nil {
		return outcome.Failed(err)
	}
	report(app, f)
	return settle(app, f, wanted, held)
}
