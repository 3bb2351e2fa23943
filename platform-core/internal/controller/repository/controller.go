// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/secretwatch"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/internal/stores"
)

// owner names the controller.
const owner = "backuprepository"

// checkTimeout is how long a check may take, the start of its pod included. A mover gives a store that does not answer
// up before that.
const checkTimeout = 8 * time.Minute

// Deps are what the controller needs from its surroundings.
type Deps struct {
	// Index of the loaded plugins.
	Index *plugin.Index
	// Settings that pods are rendered with.
	Settings *settings.Live
	// Secrets that repositories name. No other controller is fed by it.
	Secrets *secretwatch.Watcher
	// Domain that this operator serves.
	Domain string
	// Now tells the time.
	Now func() time.Time
	// Options of the controller: workers and rate limits.
	Options controller.Options
}

// Controller checks BackupRepositories.
type Controller struct {
	Deps
	client client.Client
	live   client.Reader
}

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, deps Deps) error {
	c := &Controller{Deps: deps, client: mgr.GetClient(), live: mgr.GetAPIReader()}
	return ctrl.NewControllerManagedBy(mgr).
		Named(owner).
		For(&platformv1.BackupRepository{}).
		Owns(&batchv1.Job{}).
		Watches(&platformv1.Backup{}, handler.EnqueueRequestsFromMapFunc(repositoryOf), builder.WithPredicates(ended)).
		WatchesRawSource(deps.Secrets.Source()).
		WithOptions(deps.Options).
		Complete(c)
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r := &platformv1.BackupRepository{}
	if err := c.client.Get(ctx, request.NamespacedName, r); err != nil {
		c.Secrets.Release(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.DeletionTimestamp.IsZero() {
		c.Secrets.Release(request.NamespacedName)
		return c.removeShare(ctx, r)
	}
	if err := c.ensureShare(ctx, r); err != nil {
		return reconcile.Result{}, err
	}
	f, err := c.observe(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := stateOf(r, c.Domain)
	d := used(recall(look(next(r, before, f), before, f), r, f), before, f)
	if d.verb == takeRecall {
		if d.state.Inventory, err = c.takeRecall(ctx, r, d.state.Inventory, f); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := c.record(ctx, r, d.state); err != nil {
		// Another operator spoke, or the spec changed: that wakes us.
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, err
	}
	if err := c.act(ctx, r, f, d.verb); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.after}, nil
}

// observe reads what a repository names, and how its check stands.
func (c *Controller) observe(ctx context.Context, r *platformv1.BackupRepository) (facts, error) {
	f := facts{now: c.Now(), domain: c.Domain}
	self := client.ObjectKeyFromObject(r)
	var named []types.NamespacedName
	for _, need := range stores.Needs(r) {
		secret := types.NamespacedName{Namespace: r.Namespace, Name: need.Secret}
		c.Secrets.Ensure(ctx, secret, self)
		named = append(named, secret)
	}
	c.Secrets.Release(self, named...)
	var err error
	if f.lack, err = stores.Missing(ctx, c.live, r); err != nil || f.lack.Message != "" {
		return f, err
	}
	if f.digest, err = c.digest(ctx, r, named); err != nil {
		return f, err
	}
	if f.check, err = c.job(ctx, r, checkName(r, f)); err != nil {
		return f, err
	}
	if err = c.observeUse(ctx, r, &f); err != nil {
		return f, err
	}
	return f, c.observeInventory(ctx, r, &f)
}

// job reads one of the Jobs of a repository; nil when there is none.
func (c *Controller) job(ctx context.Context, r *platformv1.BackupRepository, name string) (*jobstate.State, error) {
	job := &batchv1.Job{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: name}
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx, key, job)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(job, r) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read Job %q of BackupRepository %q: %w", name, r.Name, err)
	}
	state, err := jobstate.Jobs{Live: c.live, Client: c.client, Now: c.Now}.Look(ctx, job)
	return &state, err
}

// digest is that of all that a check depends on. Of the Secrets it has nothing but their versions.
func (c *Controller) digest(ctx context.Context, r *platformv1.BackupRepository,
	named []types.NamespacedName) (string, error) {
	place := r.Spec.DeepCopy()
	place.MaxConcurrentBackups, place.InventoryInterval, place.Import = 0, nil, nil
	text, err := json.Marshal(place)
	if err != nil {
		return "", err
	}
	for _, name := range named {
		secret, err := c.Secrets.Get(ctx, name)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("cannot read Secret %q: %w", name, err)
		}
		if err == nil {
			text = fmt.Appendf(text, "\n%s/%s", secret.UID, secret.ResourceVersion)
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// checkName is that of the Job, another one for each operator and for each thing to be checked.
func checkName(r *platformv1.BackupRepository, f facts) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "/" + f.domain + "/" + f.digest))
	return "check-" + hex.EncodeToString(sum[:12])
}

func stateOf(r *platformv1.BackupRepository, domain string) *platformv1.RepositoryState {
	i := slices.IndexFunc(r.Status.Domains, func(s platformv1.RepositoryState) bool { return s.Domain == domain })
	if i < 0 {
		return nil
	}
	return &r.Status.Domains[i]
}

// record writes what this operator says, when that changes.
func (c *Controller) record(ctx context.Context, r *platformv1.BackupRepository,
	state platformv1.RepositoryState) error {
	before := r.DeepCopy()
	r.Status.Domains = slices.DeleteFunc(slices.Clone(r.Status.Domains),
		func(s platformv1.RepositoryState) bool { return s.Domain == state.Domain })
	r.Status.Domains = append(r.Status.Domains, state)
	slices.SortFunc(r.Status.Domains, func(a, b platformv1.RepositoryState) int { return cmp.Compare(a.Domain, b.Domain) })
	r.Status.Summary = summaryOf(r.Status.Domains)
	if equality.Semantic.DeepEqual(before.Status, r.Status) {
		return nil
	}
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, r, bound, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("cannot write the status of BackupRepository %q: %w", client.ObjectKeyFromObject(r), err)
	}
	return nil
}

// act makes or removes the Jobs of the check and of the inventory.
func (c *Controller) act(ctx context.Context, r *platformv1.BackupRepository, f facts, do verb) error {
	switch do {
	case makeCheck:
		return c.make(ctx, r, checkName(r, f), checkTimeout, mover.Plan{Verb: mover.VerbCheck})
	case removeCheck:
		return c.remove(ctx, r, checkName(r, f), f.check)
	case makeListing:
		return c.makeListing(ctx, r)
	case removeListing:
		return c.remove(ctx, r, listingName(r, c.Domain), f.listing)
	case makeRecall:
		return c.makeRecall(ctx, r)
	case removeRecall:
		return c.remove(ctx, r, recallName(r, c.Domain, afterOf(stateOf(r, c.Domain))), f.recall)
	}
	return nil
}

// make makes a Job under its name, unless there is one already.
func (c *Controller) make(
	ctx context.Context, r *platformv1.BackupRepository, name string, deadline time.Duration, plan mover.Plan,
) error {
	job, err := render.MoverAlone(c.Settings.Get(), render.Mover{
		Namespace: r.Namespace, Name: name, Domain: c.Domain, For: r.UID, Repository: r, Deadline: deadline, Plan: plan,
		Owner: ownerOf(r),
	})
	if err != nil {
		return err
	}
	switch plan.Verb {
	case mover.VerbList:
		job.Annotations = map[string]string{platformv1.FollowsAnnotation: follows(triedAt(r.Inventory()))}
	case mover.VerbCheck:
		job.Annotations = map[string]string{platformv1.FollowsAnnotation: follows(checkedAt(stateOf(r, c.Domain)))}
	}
	err = c.client.Create(ctx, job, client.FieldOwner(owner))
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("cannot make Job %q: %w", name, err)
	}
	return nil
}

// follows is the annotation of a Job whose result replaces that of another time. With it a result is put on record
// once: the times of a Job would not tell, since they are of other clocks and of whole seconds.
func follows(before *metav1.Time) string {
	if before == nil {
		return ""
	}
	return before.UTC().Format(time.RFC3339)
}

// recorded says whether the result of a Job is on record: whether the last time is another one than when it was made.
func recorded(job *jobstate.State, last *metav1.Time) bool {
	return job.Follows != follows(last)
}

// remove deletes the Job that was seen.
func (c *Controller) remove(ctx context.Context, r *platformv1.BackupRepository, name string,
	seen *jobstate.State) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
	err := c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &seen.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("cannot delete Job %q: %w", name, err)
	}
	return nil
}
