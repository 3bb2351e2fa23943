// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/internal/livereader"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/stores"
	"github.com/zeroinfra/platform-core/sdk/objectcache"
)

// observation is all that was read for one Backup.
type observation struct {
	facts facts
	// repository and application; nil while they are not there.
	repository  *platformv1.BackupRepository
	application *platformv1.Application
	// method of the plugin.
	method schema.BackupMethod
	// declared is the component that has the method.
	declared *schema.Component
}

func moverName(b *platformv1.Backup) string { return "mover-" + string(b.UID) }

func removerName(b *platformv1.Backup) string {
	return fmt.Sprintf("remove-%s-%d", b.UID, b.Status.Removals)
}

// observe reads what is needed where a Backup is.
func (c *Controller) observe(ctx context.Context, b *platformv1.Backup) (*observation, error) {
	seen := &observation{facts: facts{now: c.Now()}}
	f := &seen.facts
	if b.Spec.IsSnapshot() {
		return seen, c.observeSnapshotted(ctx, b, seen)
	}
	var err error
	if f.mover, err = c.job(ctx, b, moverName(b)); err != nil {
		return nil, err
	}
	going := !b.DeletionTimestamp.IsZero()
	if going || b.Status.Leftovers == platformv1.LeftoversPossible {
		if f.remover, err = c.job(ctx, b, removerName(b)); err != nil {
			return nil, err
		}
	}
	if b.Status.Phase == "" && b.Spec.Imported != nil && !going {
		return seen, nil
	}
	if b.Ended() && !going && b.Status.Leftovers != platformv1.LeftoversPossible {
		if f.verified, err = c.verified(ctx, b); err != nil {
			return nil, err
		}
		f.missing, err = c.missing(ctx, b)
		return seen, err
	}
	if err := c.observeRepository(ctx, b, seen); err != nil {
		return nil, err
	}
	if going || b.Ended() {
		return seen, nil
	}
	if err := c.observeInstance(ctx, b, seen); err != nil || b.Status.Phase == platformv1.BackupRunning {
		return seen, err
	}
	f.refusal = cmp.Or(f.vanished, f.refusal, f.store)
	if f.refusal != "" || f.source == nil && len(f.sources) == 0 {
		return seen, nil
	}
	f.limit = int(cmp.Or(seen.repository.Spec.MaxConcurrentBackups, stores.DefaultConcurrency))
	f.ahead, err = c.ahead(ctx, b)
	return seen, err
}

// job reads one of the Jobs of a Backup; nil when there is none. That it is not there has consequences.
func (c *Controller) job(ctx context.Context, b *platformv1.Backup, name string) (*jobstate.State, error) {
	job := &batchv1.Job{}
	key := client.ObjectKey{Namespace: b.Namespace, Name: name}
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx, key, job)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(job, b) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read Job %q: %w", name, err)
	}
	state, err := c.Jobs.Look(ctx, job)
	return &state, err
}

func (c *Controller) observeRepository(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	repository := &platformv1.BackupRepository{}
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx,
		client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.RepositoryRef.Name}, repository)
	if apierrors.IsNotFound(err) {
		seen.facts.vanished = fmt.Sprintf("there is no BackupRepository %q in namespace %q: create it, or delete this Backup",
			b.Spec.RepositoryRef.Name,
			b.Namespace)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read BackupRepository %q: %w", b.Spec.RepositoryRef.Name, err)
	}
	seen.repository = repository
	missing, err := stores.Missing(ctx, c.live, repository)
	seen.facts.store = missing.Message
	return err
}

// observeInstance looks for the method, and for a pod to take the data from.
func (c *Controller) observeInstance(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	f := &seen.facts
	app := &platformv1.Application{}
	err := livereader.Reader{Cached: c.client, Live: c.live}.Get(ctx,
		client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.ApplicationRef.Name}, app)
	switch {
	case apierrors.IsNotFound(err), err == nil && !app.DeletionTimestamp.IsZero():
		f.refusal = fmt.Sprintf("there is no Application %q to take the data from", b.Spec.ApplicationRef.Name)
		return nil
	case err != nil:
		return fmt.Errorf("cannot read Application %q: %w", b.Spec.ApplicationRef.Name, err)
	}
	seen.application = app
	f.plugin, f.version = opsflow.PinnedTo(app), app.Spec.Version
	known := opsflow.Unknown
	state, found := c.Index.Get(f.plugin.Name, f.plugin.Version)
	if found {
		known = opsflow.Known
	}
	bundle, refusal := opsflow.BundleOf(f.plugin, state, known)
	if refusal != nil {
		f.refusal = refusal.Message
		return nil
	}
	bundle = bundle.In(app.Spec.Topology)
	if !seen.findMethod(b, bundle) {
		f.refusal = fmt.Sprintf("plugin %q version %q has no backup method %q for topology %q", f.plugin.Name,
			f.plugin.Version, b.Spec.Method, app.Spec.Topology)
		return nil
	}
	// The plugin may be of another version by now.
	if f.refusal = opsflow.Misplaced(seen.method.Name, seen.method.Type(), b.Spec.RepositoryRef.Name); f.refusal != "" {
		return nil
	}
	if seen.method.Objects == "" && !seen.declared.Single() {
		return c.findSources(ctx, b, seen)
	}
	return c.findSource(ctx, b, seen)
}

// findMethod says whether the components of the instance have the method.
func (seen *observation) findMethod(b *platformv1.Backup, bundle *plugin.Bundle) bool {
	app := seen.application
	var components []string
	if topology, ok := bundle.Topology(app.Spec.Topology); ok {
		for _, part := range topology.Wanted(app.Spec.Names) {
			components = append(components, part.Name)
		}
	}
	methods, of := bundle.BackupMethodsOf(components)
	i := slices.IndexFunc(methods, func(m schema.BackupMethod) bool { return m.Name == b.Spec.Method })
	if i < 0 {
		return false
	}
	seen.method, seen.facts.component, seen.declared = methods[i], of[i].Name, of[i]
	return true
}

// findSource chooses the pod: of the first choice of the method that any fits, by name.
func (c *Controller) findSource(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	pods, err := c.podsOf(ctx, b, seen)
	if err != nil {
		return err
	}
	f := &seen.facts
	f.source, f.waits = chosen(seen, pods)
	return nil
}

// podsOf are the pods of the component, by name.
func (c *Controller) podsOf(ctx context.Context, b *platformv1.Backup, seen *observation) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := c.client.List(ctx, &pods, client.InNamespace(b.Namespace), client.MatchingLabels{
		platformv1.ApplicationLabel: b.Spec.ApplicationRef.Name, platformv1.ComponentLabel: seen.facts.component,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the pods of Application %q: %w", b.Spec.ApplicationRef.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods.Items, nil
}

// chosen is one of these pods, or what is waited for.
func chosen(seen *observation, pods []corev1.Pod) (source *platformv1.BackupSource, waits string) {
	var problems []error
	component := seen.facts.component
	choices := seen.method.From
	if len(choices) == 0 {
		// Any one will do, whatever its role.
		choices = []schema.BackupSource{{}}
	}
	for _, choice := range choices {
		for i := range pods {
			pod := &pods[i]
			if !serves(pod) {
				continue
			}
			role := pod.Labels[platformv1.RoleLabel]
			fits, err := true, error(nil)
			if len(seen.method.From) > 0 {
				fits, err = choice.Fits(role, report.Latest(pod.Annotations[platformv1.ReportAnnotation]).Attributes)
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("pod %s: %w", pod.Name, err))
			}
			if fits {
				return &platformv1.BackupSource{Pod: pod.Name, Component: component, Set: pod.Labels[platformv1.SetLabel],
					Role: role}, ""
			}
		}
	}
	waits = fmt.Sprintf("a pod of component %q to take the data from: none is ready, in a role and up to date as method "+
		"%q asks", component, seen.method.Name)
	if err := errors.Join(problems...); err != nil {
		waits += ": " + err.Error()
	}
	return nil, waits
}

// serves says whether a pod is ready and stays.
func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() &&
		slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		})
}

// missing says whether the latest inventory of the repository, which came after the Backup, has found nothing of it.
func (c *Controller) missing(ctx context.Context, b *platformv1.Backup) (missing, error) {
	if b.Status.Phase != platformv1.BackupCompleted {
		return "", nil
	}
	repository := &platformv1.BackupRepository{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.RepositoryRef.Name}, repository)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	inventory := repository.Inventory()
	if inventory == nil || inventory.Time == nil || inventory.Time.Before(b.Status.CompletionTime) ||
		!slices.Contains(inventory.MissingBackups, b.Name) {
		return "", nil
	}
	return dataMissing, nil
}

// ahead names the Backups that run or come before this one, of all domains, as they are now; those that run first, then
// by their turns.
func (c *Controller) ahead(ctx context.Context, b *platformv1.Backup) ([]string, error) {
	// One that cannot be decoded does not run.
	kind := platformv1.GroupVersion.WithKind("Backup")
	backups, err := objectcache.ListDecodable[platformv1.Backup](ctx, c.live, kind, client.InNamespace(b.Namespace))
	if err != nil {
		return nil, fmt.Errorf("cannot list the Backups of BackupRepository %q: %w", b.Spec.RepositoryRef.Name, err)
	}
	return aheadOf(b, backups), nil
}

// aheadOf is ahead among these.
func aheadOf(b *platformv1.Backup, all []platformv1.Backup) []string {
	var running, waiting []*platformv1.Backup
	for i := range all {
		other := &all[i]
		switch {
		case other.Name == b.Name || other.Spec.RepositoryRef != b.Spec.RepositoryRef:
		case other.Status.Phase == platformv1.BackupRunning:
			running = append(running, other)
		case waitsForTurn(other) && before(other, b):
			waiting = append(waiting, other)
		}
	}
	var names []string
	for _, group := range [][]*platformv1.Backup{running, waiting} {
		slices.SortFunc(group, func(a, b *platformv1.Backup) int {
			if before(a, b) {
				return -1
			}
			return 1
		})
		for _, one := range group {
			names = append(names, one.Name)
		}
	}
	return names
}

// waitsForTurn says whether a Backup would begin if it were its turn.
func waitsForTurn(b *platformv1.Backup) bool {
	if !b.DeletionTimestamp.IsZero() || b.Spec.Imported != nil || b.Status.Phase != "" &&
		b.Status.Phase != platformv1.BackupPending {
		return false
	}
	ready := meta.FindStatusCondition(b.Status.Conditions, platformv1.ReadyCondition)
	return ready == nil || ready.Reason != platformv1.ReasonNoBackupSource
}

// before says which of two Backups was made first.
func before(a, b *platformv1.Backup) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
