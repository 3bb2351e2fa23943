// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/accept"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/internal/stores"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// restorable says with which Backup, and into which set, the data of an instance can be restored in place; or why it
// cannot. It touches nothing.
func (c *Controller) restorable(ctx context.Context, op *platformv1.Operation, seen *observation,
	name string) (*restoreSource, *opsflow.Answer, error) {
	app := &platformv1.Application{}
	if err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: seen.application}, app); err != nil {
		return nil, nil, fmt.Errorf("cannot read Application %q: %w", seen.application, err)
	}
	switch {
	case app.Spec.Suspend:
		return nil, refuse("%s is suspended: set spec.suspend to false first", seen.facts.Target), nil
	case app.Spec.Running != nil && !*app.Spec.Running:
		return nil, refuse("%s is stopped: set spec.running to true first", seen.facts.Target), nil
	}
	source := &restoreSource{backup: &platformv1.Backup{}, repository: &platformv1.BackupRepository{}}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: name}, source.backup)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse("there is no Backup %q in namespace %q: see kubectl get backups", name, op.Namespace), nil
	case err != nil:
		return nil, nil, fmt.Errorf("cannot read Backup %q: %w", name, err)
	}
	if ready := conditions.Get(source.backup, platformv1.ReadyCondition); ready != nil &&
		ready.Reason == platformv1.ReasonBackupDataMissing {
		return nil, refuse("Backup %q cannot be restored: %s", name, ready.Message), nil
	}
	if source.backup.Spec.IsSnapshot() {
		return nil, refuse("Backup %q is kept as VolumeSnapshots, and data is put in place out of a BackupRepository "+
			"alone: make another instance with restoreFrom", name), nil
	}
	repository := source.backup.Spec.RepositoryRef.Name
	err = c.live.Get(ctx, client.ObjectKey{Namespace: op.Namespace, Name: repository}, source.repository)
	switch {
	case apierrors.IsNotFound(err):
		return nil, refuse("there is no BackupRepository %q, which Backup %q is kept in: create it again", repository, name),
			nil
	case err != nil:
		return nil, nil, fmt.Errorf("cannot read BackupRepository %q: %w", repository, err)
	}
	switch missing, err := stores.Missing(ctx, c.live, source.repository); {
	case err != nil:
		return nil, nil, err
	case missing.Message != "":
		return nil, refuse("%s", missing.Message), nil
	}
	refusal, err := c.fitting(ctx, app, source)
	return source, refusal, err
}

// fitting finds the component that a Backup is of, as for an instance that is to begin with it, and its only set.
func (c *Controller) fitting(ctx context.Context, app *platformv1.Application,
	source *restoreSource) (*opsflow.Answer, error) {
	probe := app.DeepCopy()
	probe.Spec.RestoreFrom, probe.Status.RestoredFrom = &platformv1.RestoreFrom{Backup: source.backup.Name}, nil
	facts, err := c.editor.Facts(ctx, probe)
	if err != nil {
		return nil, err
	}
	facts.Backup = source.backup
	if refusal := accept.Plugin(probe, facts.State); refusal != nil {
		return refuse("%s", refusal.Message), nil
	}
	wanted, refusals := accept.Check(probe, facts)
	if len(refusals) == 0 {
		for i := range wanted {
			wanted[i].RestoreFrom = nil
		}
		var waits *render.Refusal
		if refusals, waits = accept.Restore(probe, facts, wanted); waits != nil {
			refusals = append(refusals, waits)
		}
	}
	if len(refusals) > 0 {
		return refuse("%s", refusals[0].Message), nil
	}
	if log := archivedAs(app, facts, wanted); log != "" {
		return refuse("%s keeps its log in an archive (%s), and that of restored data goes on in another folder there, "+
			"where no time can be reached before there is a Backup of it: take the archive out of its spec, restore, put it "+
			"back and take a Backup; or make another instance with restoreFrom",
			app.Name, log), nil
	}
	for i := range wanted {
		if wanted[i].RestoreFrom != nil {
			return c.find(ctx, app, facts, &wanted[i], source)
		}
	}
	return refuse("no component of %s has the data of Backup %q", app.Name, source.backup.Name), nil
}

// archivedAs says where an instance keeps its log in an archive: in a BackupRepository, or by a credential of those by
// which a method of its components reads such a log, to go on to a point in time. Empty for none. What is restored, by
// whichever method, has an identity of its own and a folder of its own in the archive: its log leads on from no Backup
// of before, which a restore does not do behind somebody's back.
func archivedAs(app *platformv1.Application, facts accept.Facts, wanted []platformv1.ComponentSpec) string {
	var components []string
	for i := range wanted {
		components = append(components, wanted[i].Component)
	}
	methods, _ := facts.State.Bundle.In(app.Spec.Topology).BackupMethodsOf(components)
	for _, method := range methods {
		if method.Restore == nil || method.Restore.Target == nil {
			continue
		}
		if app.Spec.Archive != nil {
			return fmt.Sprintf("BackupRepository %q", app.Spec.Archive.RepositoryRef.Name)
		}
		for _, credential := range method.Restore.Target.Credentials {
			if !credential.Optional && app.Spec.Supplies(credential.Name) {
				return fmt.Sprintf("credential %q", credential.Name)
			}
		}
	}
	return ""
}

// find completes a source with the set of a component, and the way in which its volumes are filled.
func (c *Controller) find(ctx context.Context, app *platformv1.Application, facts accept.Facts,
	spec *platformv1.ComponentSpec, source *restoreSource) (*opsflow.Answer, error) {
	owner := render.Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID, Domain: c.Domain}
	output, refusal := render.Component(facts.State.Bundle, facts.Settings, owner, spec)
	if refusal != nil {
		return refuse("%s", refusal.Message), nil
	}
	if way := output.WorkloadSets[0].Spec.Restore; way != nil && way.ToServers() {
		return refuse("the objects of Backup %q are put into an instance that is empty, and not in the place of others: "+
			"make another one with restoreFrom, and copy from there what is needed", source.backup.Name), nil
	}
	if len(output.WorkloadSets) != 1 {
		return refuse("component %q has %d sets, and a Backup has the data of one: make another instance with restoreFrom",
			spec.Component, len(output.WorkloadSets)), nil
	}
	source.set, source.way = &platformv1.WorkloadSet{}, output.WorkloadSets[0].Spec.Restore
	err := c.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: output.WorkloadSets[0].Name}, source.set)
	switch {
	case apierrors.IsNotFound(err):
		return refuse("WorkloadSet %s is not there yet", output.WorkloadSets[0].Name), nil
	case err != nil:
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", output.WorkloadSets[0].Name, err)
	case source.set.Spec.Authority != rollout.AuthorityEngine:
		return refuse("the members of component %q elect their primary, and keep a state of their membership that the "+
			"engine cannot change: make another instance with restoreFrom", spec.Component), nil
	case len(source.set.Spec.Volumes) == 0 || len(source.set.Spec.Ordinals()) == 0 || source.way == nil:
		return refuse("component %q has no pods with volumes", spec.Component), nil
	case source.set.Spec.IsClosed():
		return refuse("%s is in the midst of another restore; if that Operation was deleted, set spec.data.access of the "+
			"WorkloadSet to Open, with spec.data.generation as it is or as it was before", source.set.Name), nil
	}
	return nil, nil
}
