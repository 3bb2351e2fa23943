// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// removalTimeout is how long the removal of what is kept may take.
const removalTimeout = time.Hour

// attemptFormat makes names of attempts that sort by time.
const attemptFormat = "20060102T150405.000000000Z"

// record writes a decision into the status when that changes. The patch is bound to the version that was decided on.
func (c *Controller) record(ctx context.Context, b *platformv1.Backup, d decision) error {
	before := b.DeepCopy()
	after := b.DeepCopy()
	after.Status = d.status
	conditions.Report(after, d.outcome, readyMessage(after))
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, after, bound, client.FieldOwner(owner)); err != nil {
		return fmt.Errorf("cannot write the status of Backup %q: %w", client.ObjectKeyFromObject(b), err)
	}
	c.tell(before, after)
	*b = *after
	return nil
}

func readyMessage(b *platformv1.Backup) string {
	if !b.DeletionTimestamp.IsZero() {
		return "its data in the repository is deleted, or retained as deletionPolicy says"
	}
	return "the backup is complete"
}

// tell publishes what came of a Backup.
func (c *Controller) tell(before, after *platformv1.Backup) {
	if v := after.Status.Verified; !equality.Semantic.DeepEqual(before.Status.Verified, v) {
		c.tellVerified(after, v)
	}
	switch was, is := before.Status.Phase, after.Status.Phase; {
	case was == is:
	case is == platformv1.BackupRunning:
		c.events.Normal(after, "Started", "The data is taken from %s into %s.", podsOf(&after.Status), placeOf(after))
	case is == platformv1.BackupCompleted && after.Spec.IsSnapshot():
		c.events.Normal(after, "Completed", "The backup is complete: %s.", placeOf(after))
	case is == platformv1.BackupCompleted:
		c.events.Normal(after, "Completed", "The backup is complete: %d bytes, digest %s.", after.Status.Size,
			after.Status.Digest)
	case is == platformv1.BackupFailed:
		c.events.Warning(after, "Failed", "There is no backup: %s.", after.Status.Message)
	}
}

// tellVerified publishes what came of a restore drill.
func (c *Controller) tellVerified(b *platformv1.Backup, v *platformv1.BackupVerification) {
	switch v.Outcome {
	case platformv1.VerificationPassed:
		c.events.Normal(b, platformv1.ReasonVerified, "Restore drill %s: %s.", v.Operation, v.Message)
	case platformv1.VerificationFailed:
		c.events.Warning(b, platformv1.ReasonVerificationFailed, "Restore drill %s: %s.", v.Operation, v.Message)
	default:
		c.events.Warning(b, platformv1.ReasonDrillUnfinished, "Restore drill %s came to no end: %s.", v.Operation, v.Message)
	}
}

// bringAbout does what a decision asks for.
func (c *Controller) bringAbout(ctx context.Context, b *platformv1.Backup, seen *observation, d decision) error {
	switch d.effect {
	case makeMover:
		return c.makeMover(ctx, b, seen)
	case stopMover:
		return c.stop(ctx, b, moverName(b))
	case makeRemover:
		return c.makeRemover(ctx, b, seen)
	case stopRemover:
		// That of the try that failed: the status counts it already.
		old := b.DeepCopy()
		if seen.facts.remover != nil && problemOf(seen.facts.remover) != "" {
			old.Status.Removals--
		}
		return c.stop(ctx, old, removerName(old))
	case makeSnapshots:
		return c.makeSnapshots(ctx, b, seen)
	case dropSnapshots:
		return c.dropSnapshots(ctx, seen)
	case release:
		if d.left != "" {
			c.events.Warning(b, "LeftInRepository", "What is kept in %s was not removed: %s.", b.Status.Key, d.left)
		}
		return c.release(ctx, b)
	}
	return nil
}

// release lets go of a Backup.
func (c *Controller) release(ctx context.Context, b *platformv1.Backup) error {
	before := b.DeepCopy()
	if !controllerutil.RemoveFinalizer(b, platformv1.BackupFinalizer) {
		return nil
	}
	bound := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.client.Patch(ctx, b, bound, client.FieldOwner(owner))
	if apierrors.IsConflict(err) {
		// The change wakes us.
		return nil
	}
	return client.IgnoreNotFound(err)
}

// stop deletes a Job; until its pod has ended, it is there.
func (c *Controller) stop(ctx context.Context, b *platformv1.Backup, name string) error {
	job := &batchv1.Job{}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, job)
	if apierrors.IsNotFound(err) || err == nil && (!metav1.IsControlledBy(job, b) || !job.DeletionTimestamp.IsZero()) {
		return nil
	}
	if err == nil {
		err = c.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
			client.Preconditions{UID: &job.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot delete Job %q: %w", name, err)
	}
	return nil
}

// makeMover makes the Job that carries the data from the pod that the status names.
func (c *Controller) makeMover(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	if seen.repository == nil || seen.application == nil || seen.method.Name == "" || len(b.Status.From()) == 0 {
		return c.refuse(ctx, b, cmp.Or(seen.facts.vanished, seen.facts.refusal, "what it needs is gone"))
	}
	sources, app := b.Status.From(), seen.application
	set := &platformv1.WorkloadSet{}
	name := platformv1.WorkloadSetNameFor(app.Name, sources[0].Component, sources[0].Set)
	err := c.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, set)
	if apierrors.IsNotFound(err) {
		return c.refuse(ctx, b, fmt.Sprintf("WorkloadSet %q, from which the data was to be taken, is gone", name))
	}
	if err != nil {
		return fmt.Errorf("cannot read WorkloadSet %q: %w", name, err)
	}
	settings := c.Settings.Get()
	method, err := seen.method.Expand(origin(app, &sources[0], settings))
	if err != nil {
		return c.refuse(ctx, b, err.Error())
	}
	streams, err := streamsOf(b, seen.method, app, settings)
	if err != nil {
		return c.refuse(ctx, b, err.Error())
	}
	metadata, err := c.metadata(ctx, b, app)
	if err != nil {
		return err
	}
	wanted := render.Mover{
		Namespace: b.Namespace, Name: moverName(b), Domain: c.Domain, For: b.UID, Owner: ownerOf(b),
		Repository: seen.repository,
		Deadline:   b.Deadline().Sub(c.Now()),
		Plan: mover.Plan{Verb: mover.VerbBackup, Command: method.Command, Facts: method.Facts, Steady: method.Steady,
			Streams: streams, Backup: &mover.Backup{
				Key: b.Status.Key, Attempt: c.Now().UTC().Format(attemptFormat),
				Compression: string(cmp.Or(b.Spec.Compression, platformv1.CompressionZstd)), Metadata: metadata,
			}},
	}
	if method.Files != nil {
		return c.makeMoverOver(ctx, b, seen, set, wanted)
	}
	if method.Objects != "" {
		wanted.Plan.Objects = &mover.Objects{Mode: method.Objects}
	}
	job, err := render.MoverBeside(set, seen.declared.Container, settings, wanted, method.Env)
	if err != nil {
		return c.refuse(ctx, b, err.Error())
	}
	return c.make(ctx, b, job)
}

// makeMoverOver makes the Job that carries the files of the pod that the status names, on its node.
func (c *Controller) makeMoverOver(ctx context.Context, b *platformv1.Backup, seen *observation,
	set *platformv1.WorkloadSet, wanted render.Mover) error {
	pod := &corev1.Pod{}
	name := b.Status.From()[0].Pod
	err := c.live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) || err == nil && pod.Spec.NodeName == "" {
		return c.refuse(ctx, b, fmt.Sprintf("pod %q, whose files were to be taken, is gone, or has no node", name))
	}
	if err != nil {
		return fmt.Errorf("cannot read pod %q: %w", name, err)
	}
	files := seen.method.Files
	wanted.Plan.Files = &mover.Files{Folder: files.Folder, Exclude: files.Exclude}
	job, err := render.MoverOver(set, seen.declared.Container, c.Settings.Get(), pod, wanted)
	if err != nil {
		return c.refuse(ctx, b, err.Error())
	}
	return c.make(ctx, b, job)
}

// makeRemover makes the Job that removes what is kept.
func (c *Controller) makeRemover(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	if seen.repository == nil {
		return nil
	}
	wanted := render.Mover{
		Namespace: b.Namespace, Name: removerName(b), Domain: c.Domain, For: b.UID, Owner: ownerOf(b),
		Repository: seen.repository, Deadline: removalTimeout,
		Plan: mover.Plan{Verb: mover.VerbDelete,
			Backup: &mover.Backup{Key: b.Status.Key, Attempt: c.Now().UTC().Format(attemptFormat)}},
	}
	if b.Spec.IsFiles() {
		wanted.Plan.Files = &mover.Files{}
	}
	job, err := render.MoverAlone(c.Settings.Get(), wanted)
	if err != nil {
		return err
	}
	return c.make(ctx, b, job)
}

// make makes a Job under its name, unless there is one already. What a namespace that is being deleted does not take
// any more keeps no Backup there.
func (c *Controller) make(ctx context.Context, b *platformv1.Backup, job *batchv1.Job) error {
	err := c.client.Create(ctx, job, client.FieldOwner(owner))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		if b.DeletionTimestamp.IsZero() {
			return nil
		}
		c.events.Warning(b, "LeftInRepository", "What is kept in %s was not removed: its namespace is being deleted.",
			b.Status.Key)
		return c.release(ctx, b)
	case !b.DeletionTimestamp.IsZero() || b.Ended():
		return fmt.Errorf("cannot make Job %q: %w", job.Name, err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return c.refuse(ctx, b, fmt.Sprintf("its mover cannot be made: %v", err))
	}
	return fmt.Errorf("cannot make Job %q: %w", job.Name, err)
}

// refuse ends a Backup whose mover cannot be made.
func (c *Controller) refuse(ctx context.Context, b *platformv1.Backup, why string) error {
	d := turn{b: b, f: facts{now: c.Now()}, s: b.Status.DeepCopy()}.failed(platformv1.ReasonBackupRefused, why)
	err := c.record(ctx, b, decision{status: d.status, outcome: outcome.Stalled(platformv1.ReasonBackupRefused, why)})
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func ownerOf(b *platformv1.Backup) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Backup", Name: b.Name, UID: b.UID,
		Controller: new(true)}
}

// origin is what the texts of a method see.
func origin(app *platformv1.Application, source *platformv1.BackupSource, s render.Settings) placeholder.Origin {
	domain := plugin.HeadlessServiceName(app.Name, source.Component) + "." + app.Namespace + ".svc." +
		cmp.Or(s.ClusterDomain, render.DefaultClusterDomain)
	return placeholder.Origin{
		App: placeholder.App{Name: app.Name, Namespace: app.Namespace, Version: app.Spec.Version,
			Topology: app.Spec.Topology, TLS: app.Spec.TLS.On()},
		Source: placeholder.Member{Name: source.Pod, FQDN: source.Pod + "." + domain, Role: source.Role,
			Version: app.Spec.Version},
	}
}

// streamsOf are the parts of a Backup whose data is in several, each with what its source makes of the variables of the
// method; none where it is in one.
func streamsOf(b *platformv1.Backup, method schema.BackupMethod, app *platformv1.Application, s render.Settings) (
	[]mover.Stream, error) {
	var streams []mover.Stream
	var first schema.BackupMethod
	for i := range b.Status.Sources {
		source := &b.Status.Sources[i]
		filled, err := method.Expand(origin(app, source, s))
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = filled
		}
		if !slices.Equal(filled.Command, first.Command) || !slices.Equal(filled.Facts, first.Facts) ||
			!slices.Equal(filled.Steady, first.Steady) {
			return nil, fmt.Errorf("method %q has another command for each set: only values of its env may differ", method.Name)
		}
		stream := mover.Stream{Name: source.Set}
		for _, env := range filled.Env {
			if env.Secret == nil {
				stream.Env = append(stream.Env, env.Name+"="+env.Value)
			}
		}
		streams = append(streams, stream)
	}
	return streams, nil
}
