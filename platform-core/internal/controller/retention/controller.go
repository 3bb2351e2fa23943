// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/stores"
	"github.com/zeroinfra/platform-core/sdk/event"
)

// owner names the controller.
const owner = "retention"

const (
	// longestSleep is when the clock is looked at again at the latest: a timer does not follow a clock that is set.
	longestSleep = time.Hour
	// again is how soon a decision that was overtaken is made anew.
	again = 100 * time.Millisecond
)

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Domain that this operator serves.
	Domain string
	// Now tells the time.
	Now func() time.Time
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller deletes Backups whose retention has them go. What it is asked for is a BackupRepository by name, or those
// Backups of a namespace that are in none: the name is empty then.
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
		For(&platformv1.BackupRepository{}).
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(repositoryOf)).
		WithOptions(deps.Options).
		Complete(c)
}

func repositoryOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.(*platformv1.Backup).Spec.RepositoryRef.Name
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	limit := int(stores.DefaultConcurrency)
	if request.Name != "" {
		repository := &platformv1.BackupRepository{}
		if err := c.client.Get(ctx, request.NamespacedName, repository); err != nil ||
			!repository.DeletionTimestamp.IsZero() {
			// What is kept would stay there for good.
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		limit = int(cmp.Or(repository.Spec.MaxConcurrentBackups, stores.DefaultConcurrency))
	}
	p, backups, err := c.plan(ctx, c.client, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(p.due) == 0 || room(backups, limit) == 0 {
		// The end of a deletion wakes us.
		return c.sleep(p), nil
	}
	// Something is to be deleted: on what is so, not on what the cache has.
	if p, backups, err = c.plan(ctx, c.live, request.NamespacedName); err != nil {
		return reconcile.Result{}, err
	}
	for _, v := range p.due[:min(len(p.due), room(backups, limit))] {
		switch err := c.remove(ctx, v); {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: again}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	return c.sleep(p), nil
}

// plan is what comes of what a reader has.
func (c *Controller) plan(ctx context.Context, reader client.Reader, repository types.NamespacedName) (plan,
	[]*platformv1.Backup, error) {
	backups, err := c.backups(ctx, reader, repository)
	if err != nil {
		return plan{}, nil, err
	}
	var apps platformv1.ApplicationList
	if err := reader.List(ctx, &apps, client.InNamespace(repository.Namespace),
		client.MatchingLabels{platformv1.DomainLabel: c.Domain}); err != nil {
		return plan{}, nil, fmt.Errorf("cannot list the Applications that may begin with a Backup of BackupRepository %q: %w",
			repository, err)
	}
	inUse := map[string]bool{}
	for i := range apps.Items {
		if app := &apps.Items[i]; app.Spec.RestoreFrom != nil && app.Status.RestoredFrom == nil {
			inUse[app.Spec.RestoreFrom.Backup] = true
		}
	}
	var operations platformv1.OperationList
	if err := reader.List(ctx, &operations, client.InNamespace(repository.Namespace),
		client.MatchingLabels{platformv1.DomainLabel: c.Domain}); err != nil {
		return plan{}, nil, fmt.Errorf("cannot list the Operations that may restore from BackupRepository %q: %w", repository,
			err)
	}
	for i := range operations.Items {
		if op := &operations.Items[i]; op.Spec.TemplateRef == opsflow.TemplateRestore && !opsflow.Finished(op) {
			inUse[string(op.Spec.Parameters[opsflow.ParameterBackup])] = true
		}
	}
	return decide(backups, inUse, c.Now()), backups, nil
}

// backups are those of the domain that a reader has in a repository.
func (c *Controller) backups(ctx context.Context, reader client.Reader, repository types.NamespacedName) (
	[]*platformv1.Backup, error) {
	var list platformv1.BackupList
	if err := reader.List(ctx, &list, client.InNamespace(repository.Namespace),
		client.MatchingLabels{platformv1.DomainLabel: c.Domain}); err != nil {
		return nil, fmt.Errorf("cannot list the Backups of BackupRepository %q: %w", repository, err)
	}
	return in(repository.Name, list.Items), nil
}

// remove deletes a Backup as it was decided on: one that somebody changed since is looked at again.
func (c *Controller) remove(ctx context.Context, v verdict) error {
	b := v.backup
	err := c.client.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return err
	case err != nil:
		return fmt.Errorf("cannot delete Backup %q: %w", client.ObjectKeyFromObject(b), err)
	}
	c.events.Normal(b, "Expired", "The Backup was deleted by its retention: %s.", v.why)
	return nil
}

func (c *Controller) sleep(p plan) reconcile.Result {
	if p.next.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: min(max(p.next.Sub(c.Now()), time.Millisecond), longestSleep)}
}
