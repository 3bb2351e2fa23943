// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/queue"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// +kubebuilder:rbac:groups=storage.zeroinfra.github.com,resources=backuppolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.zeroinfra.github.com,resources=backuppolicies/status,verbs=get;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=backuppolicies.storage.zeroinfra.github.com,verbs=patch

// owner names the controller.
const owner = "backuppolicy"

const (
	// mostEdits is how many instances are edited in one turn: the next one follows at once.
	mostEdits = 50
	// again is when that is, and later where none of the last ones could be.
	again, later = time.Second, time.Minute
)

// Kind is the controller of BackupPolicies, for operator.Options.
type Kind struct{}

var _ operator.Controller = Kind{}

// Object implements operator.Controller.
func (Kind) Object() client.Object { return &storagev1.BackupPolicy{} }

// Setup implements operator.Controller.
func (Kind) Setup(mgr ctrl.Manager, s operator.ControllerSettings) error {
	instances, err := newCache(mgr, s.Namespaces)
	if err != nil {
		return err
	}
	if err := mgr.Add(instances); err != nil {
		return err
	}
	c := &Controller{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), instances: instances, namespaces: s.Namespaces,
		check: s.CheckSchedule, now: time.Now,
	}
	c.frame = frame.NewReporting(c.client, c.work).WhenGone(c.gone).Counting(owner)
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&storagev1.BackupPolicy{}).
		Watches(&platformv1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(c.all)).
		WatchesRawSource(source.Kind[client.Object](instances, &platformv1.Application{},
			handler.EnqueueRequestsFromMapFunc(c.ofApplication), applicationChanged)).
		WatchesRawSource(source.Kind[client.Object](instances, &platformv1.Backup{},
			handler.EnqueueRequestsFromMapFunc(ofBackup), backupChanged)).
		WithOptions(queue.Options(s.Workers)).
		Complete(c)
}

// Controller brings the schedules of policies into Applications.
type Controller struct {
	client client.Client
	live   client.Reader
	// instances are the Applications and scheduled Backups of all domains.
	instances cache.Cache
	// namespaces that the operator serves; all when empty.
	namespaces map[string]cache.Config
	check      func(platformv1.CronLine, platformv1.TimeZone) error
	now        func() time.Time
	frame      *frame.Frame[*storagev1.BackupPolicy]
}

// all wakes every policy.
func (c *Controller) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var policies storagev1.BackupPolicyList
	if err := c.client.List(ctx, &policies); err != nil {
		log.FromContext(ctx).Error(err, "cannot list BackupPolicies")
		return nil
	}
	var requests []reconcile.Request
	for i := range policies.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: policies.Items[i].Name}})
	}
	return requests
}

// ofApplication wakes every policy, and those that are gone and have left something in an Application.
func (c *Controller) ofApplication(ctx context.Context, app client.Object) []reconcile.Request {
	requests := c.all(ctx, app)
	for key := range app.GetAnnotations() {
		if name, ours := strings.CutPrefix(key, annotationPrefix); ours {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return requests
}

// ofBackup wakes the policy that a Backup may be of.
func ofBackup(_ context.Context, b client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: b.GetLabels()[platformv1.ScheduleLabel]}}}
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return c.frame.Reconcile(ctx, request, &storagev1.BackupPolicy{})
}

// work brings the schedules of a policy into the instances that it chooses, and fills in its status.
func (c *Controller) work(ctx context.Context, policy *storagev1.BackupPolicy) outcome.Outcome {
	f, p, next, err := c.settle(ctx, policy.Name, policy)
	switch {
	case err != nil:
		return outcome.Failed(err)
	case !policy.DeletionTimestamp.IsZero():
		return outcome.Done().Within(next)
	}
	c.addElsewhere(&p, policy)
	return report(policy, p, f.refusal).Within(next)
}

// gone takes away what a policy has left that exists no more.
func (c *Controller) gone(ctx context.Context, key types.NamespacedName) outcome.Outcome {
	// The cache also lacks a policy that cannot be decoded, and what it has brought into Applications stays.
	if err := c.live.Get(ctx, key, &storagev1.BackupPolicy{}); !apierrors.IsNotFound(err) {
		return outcome.Failed(err)
	}
	_, _, next, err := c.settle(ctx, key.Name, nil)
	if err != nil {
		return outcome.Failed(err)
	}
	return outcome.Done().Within(next)
}

// settle edits the instances that are to be edited, and says when to look again.
func (c *Controller) settle(ctx context.Context, name string, policy *storagev1.BackupPolicy) (facts, plan,
	time.Duration, error) {
	f, err := c.observe(ctx, name, policy)
	if err != nil {
		return f, plan{}, 0, err
	}
	p, err := decide(f)
	if err != nil {
		// Of a selector that chooses nothing that can be told, nothing is taken away either.
		f.refusal = err.Error()
	}
	if len(p.edits) == 0 || f.refusal != "" {
		return f, p, wake(p, f.now), nil
	}
	next, err := c.act(ctx, f, &p)
	if len(p.edits) <= mostEdits {
		next = wake(p, f.now)
	}
	return f, p, next, err
}

// observe reads what a policy is decided on; nil is one that is gone.
func (c *Controller) observe(ctx context.Context, name string, policy *storagev1.BackupPolicy) (facts, error) {
	f := facts{now: c.now(), name: name, policy: policy, repositories: map[string]struct{}{}}
	var applications platformv1.ApplicationList
	if err := c.instances.List(ctx, &applications, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("cannot list Applications: %w", err)
	}
	f.applications = applications.Items
	if f.policy == nil {
		return f, nil
	}
	for _, schedule := range schedulesOf(f.policy) {
		if err := c.check(schedule.Schedule, schedule.TimeZone); err != nil {
			f.refusal = err.Error()
		}
	}
	var backups platformv1.BackupList
	if err := c.instances.List(ctx, &backups, client.MatchingLabels{platformv1.ScheduleLabel: name},
		client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("cannot list Backups: %w", err)
	}
	f.backups = backups.Items
	var repositories platformv1.BackupRepositoryList
	if err := c.client.List(ctx, &repositories); err != nil {
		return f, fmt.Errorf("cannot list BackupRepositories: %w", err)
	}
	for i := range repositories.Items {
		if r := &repositories.Items[i]; r.Name == f.policy.Spec.RepositoryRef.Name && r.DeletionTimestamp.IsZero() {
			f.repositories[r.Namespace] = struct{}{}
		}
	}
	return f, nil
}

// addElsewhere adds the sources of a policy in namespaces that other operators of the domain serve, as these wrote
// them: a status of one operator's sources alone would be written over by the other one, for ever.
func (c *Controller) addElsewhere(p *plan, policy *storagev1.BackupPolicy) {
	for _, source := range policy.Status.Sources {
		if _, ours := c.namespaces[source.Namespace]; ours || len(c.namespaces) == 0 {
			continue
		}
		if p.sources = append(p.sources, source); source.Message == notTakenUp {
			p.pending++
		}
	}
}
