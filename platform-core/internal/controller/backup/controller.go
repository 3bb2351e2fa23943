// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// owner names the controller.
const owner = "backup"

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Settings that pods are rendered with.
	Settings *settings.Live
	// Holds reaches the agents that have the middleware keep still.
	Holds agentclient.HoldDialer
	// Jobs looks at the Jobs of movers.
	Jobs jobstate.Jobs
	// Domain that this operator serves.
	Domain string
	// Gate wraps the reconciler, to hold it back until plugins are loaded.
	Gate func(reconcile.Reconciler) reconcile.Reconciler
	// Now tells the time.
	Now func() time.Time
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller carries out Backups.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
	events *event.Recorder
	// turns lets one Backup at a time find out whether it may begin, and say so.
	turns sync.Mutex
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	c := &Controller{Deps: deps, client: mgr.GetClient(), live: mgr.GetAPIReader(),
		events: event.New(mgr.GetEventRecorder(owner))}
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(context.Background(), &platformv1.Operation{}, verdictField, verdictOn); err != nil {
		return fmt.Errorf("cannot index Operations: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.Backup{}).
		Owns(&batchv1.Job{}).
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(c.behind)).
		Watches(&platformv1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(c.keptIn), builder.WithPredicates(looked)).
		Watches(&platformv1.Operation{}, handler.EnqueueRequestsFromMapFunc(ofVerdict),
			builder.WithPredicates(judged, arrived)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(c.ofPod)).
		Watches(&platformv1.Component{}, handler.EnqueueRequestsFromMapFunc(c.ofComponent), builder.WithPredicates(settled)).
		WithOptions(deps.Options).
		Complete(deps.Gate(c))
}

// behind wakes the Backups that wait for their turn at the repository of one that changed.
func (c *Controller) behind(ctx context.Context, obj client.Object) []reconcile.Request {
	changed := obj.(*platformv1.Backup)
	return c.pending(ctx, obj.GetNamespace(), nil, func(b *platformv1.Backup) bool {
		return b.Name != changed.Name && b.Spec.RepositoryRef == changed.Spec.RepositoryRef
	})
}

// ofPod wakes the Backups that wait for a pod of their Application.
func (c *Controller) ofPod(ctx context.Context, pod client.Object) []reconcile.Request {
	application := pod.GetLabels()[platformv1.ApplicationLabel]
	if application == "" {
		return nil
	}
	return c.pending(ctx, pod.GetNamespace(), client.MatchingLabels{platformv1.ApplicationLabel: application},
		func(*platformv1.Backup) bool { return true })
}

// looked passes the BackupRepositories whose inventory has come to something else.
var looked = predicate.Funcs{
	UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		return !slices.Equal(missingIn(e.ObjectOld), missingIn(e.ObjectNew))
	},
	DeleteFunc: func(ctrlevent.DeleteEvent) bool { return false },
}

func missingIn(obj client.Object) []string {
	if inventory := obj.(*platformv1.BackupRepository).Inventory(); inventory != nil {
		return inventory.MissingBackups
	}
	return nil
}

// keptIn wakes the Backups of a repository that are whole.
func (c *Controller) keptIn(ctx context.Context, obj client.Object) []reconcile.Request {
	return c.those(ctx, obj.GetNamespace(), nil, func(b *platformv1.Backup) bool {
		return b.Status.Phase == platformv1.BackupCompleted && b.Spec.RepositoryRef.Name == obj.GetName()
	})
}

func (c *Controller) pending(ctx context.Context, namespace string, labels client.MatchingLabels,
	which func(*platformv1.Backup) bool) []reconcile.Request {
	return c.those(ctx, namespace, labels, func(b *platformv1.Backup) bool {
		return (b.Status.Phase == "" || b.Status.Phase == platformv1.BackupPending) && which(b)
	})
}

func (c *Controller) those(ctx context.Context, namespace string, labels client.MatchingLabels,
	which func(*platformv1.Backup) bool) []reconcile.Request {
	var list platformv1.BackupList
	if err := c.client.List(ctx, &list, client.InNamespace(namespace), labels); err != nil {
		log.FromContext(ctx).Error(err, "cannot list Backups", "namespace", namespace)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if b := &list.Items[i]; which(b) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
	return requests
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	b := &platformv1.Backup{}
	if err := c.client.Get(ctx, request.NamespacedName, b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if b.Status.Phase == "" || b.Status.Phase == platformv1.BackupPending {
		// One that has a pod to take the data from again is in nobody's way before it says so: two that look at the same
		// moment would both begin.
		c.turns.Lock()
		defer c.turns.Unlock()
	}
	seen, err := c.observe(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := next(b, seen.facts)
	if err := c.record(ctx, b, d); err != nil {
		// What it was decided on is not so any more: the change wakes us.
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if err := c.bringAbout(ctx, b, seen, d); err != nil {
		return reconcile.Result{}, err
	}
	return d.outcome.Result()
}
