// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/records"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// eventNotRecorded: the API server does not have the record of an edited spec, which takes effect all the same.
const eventNotRecorded = "NotRecorded"

// record sees to it that an edited spec is on record before it has anything done to pods or volumes. taken is the
// generation that was taken up before. What the spec was then the Components still say, so that a controller that dies
// anywhere in between comes to the same record.
func (c *Controller) record(ctx context.Context, app *platformv1.Application, f *facts, taken int64,
	wanted []platformv1.ComponentSpec) outcome.Outcome {
	if taken == 0 || taken >= app.Generation {
		return outcome.Done()
	}
	adopted := adoptedIn(app, f, wanted)
	if len(adopted) == 0 && !needsWork(app, f, wanted) {
		return outcome.Done()
	}
	live := &platformv1.Application{}
	switch err := c.live.Get(ctx, client.ObjectKeyFromObject(app), live); {
	case err != nil:
		return outcome.Failed(err)
	case live.UID != app.UID || live.Generation != app.Generation:
		// The watch brings the newer one, which is what is to be recorded.
		return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, "a newer spec is there")
	case live.Status.TakenUp() >= app.Generation:
		return outcome.Done()
	}
	change := opsflow.Change{Generation: app.Generation, Words: c.changed(app, differences(app, f, wanted), adopted)}
	if runs(f) && !app.Spec.IsRunning() {
		change.Stops = opsflow.Stops
	}
	return c.ensureRecord(ctx, app, f, change)
}

// ensureRecord adds a change to the record that has yet to end, leaves it to the Operation that made it, or makes a
// record.
func (c *Controller) ensureRecord(ctx context.Context, app *platformv1.Application, f *facts,
	change opsflow.Change) outcome.Outcome {
	declared, err := c.declaredGeneration(ctx, app)
	if err != nil {
		return outcome.Failed(err)
	}
	present, err := records.Present(ctx, c.live, c.client, client.InNamespace(app.Namespace), client.MatchingLabels{
		platformv1.DomainLabel: app.Labels[platformv1.DomainLabel], platformv1.ApplicationLabel: app.Name})
	if err != nil {
		return outcome.Failed(fmt.Errorf("cannot list the Operations of Application %q: %w", app.Name, err))
	}
	var operations []*platformv1.Operation
	for _, op := range present {
		if !opsflow.Records(op) || metav1.IsControlledBy(op, app) {
			operations = append(operations, op)
		}
	}
	known := opsflow.RecordFor(declared, operations, c.bundleOf(f))
	switch {
	case known == nil:
		err = c.createRecord(ctx, app, opsflow.SpecOperation(app, change))
	case opsflow.Records(known):
		err = c.amend(ctx, known, change)
	}
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		apierrors.IsInvalid(err) {
		c.events.Warning(app, eventNotRecorded, "generation %d of the spec takes effect without an Operation on record: %v",
			change.Generation, err)
		return outcome.Done()
	}
	return outcome.Failed(err)
}

// bundleOf is the plugin that an Operation has its template from: one that upgrades the plugin goes on with that of the
// former version.
func (c *Controller) bundleOf(f *facts) func(*platformv1.Operation) *plugin.Bundle {
	return func(op *platformv1.Operation) *plugin.Bundle {
		if from := op.Status.Plugin; from != nil {
			if state, _ := c.Index.Get(from.Name, from.Version); state.Bundle != nil {
				return state.Bundle
			}
		}
		return f.state.Bundle
	}
}

// createRecord makes a record unless it is there. Somebody else's Operation of its name does not keep it from being
// made.
func (c *Controller) createRecord(ctx context.Context, app *platformv1.Application, op *platformv1.Operation) error {
	if err := controllerutil.SetControllerReference(app, op, c.client.Scheme()); err != nil {
		return err
	}
	for _, name := range []string{op.Name, opsflow.OtherName(op.Name, app.UID)} {
		made := op.DeepCopy()
		made.Name = name
		err := c.client.Create(ctx, made)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there := &platformv1.Operation{}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(made), there); err != nil {
			return fmt.Errorf("cannot read Operation %q: %w", name, err)
		}
		if metav1.IsControlledBy(there, app) {
			return nil
		}
	}
	return fmt.Errorf("cannot record the edit of Application %q: Operations %q and %q are there and are not of it: "+
		"delete them", app.Name,
		op.Name, opsflow.OtherName(op.Name, app.UID))
}

// amend adds a change to a record. It is refused with a conflict when that has ended meanwhile.
func (c *Controller) amend(ctx context.Context, op *platformv1.Operation, change opsflow.Change) error {
	if changes := opsflow.ChangesOf(op); len(changes) > 0 && changes[len(changes)-1].Generation >= change.Generation {
		return nil
	}
	after := op.DeepCopy()
	opsflow.Amend(after, change)
	return c.client.Patch(ctx, after, client.MergeFromWithOptions(op, client.MergeFromWithOptimisticLock{}))
}

// declaredGeneration is the generation of the outermost object that declares an Application.
func (c *Controller) declaredGeneration(ctx context.Context, app *platformv1.Application) (int64, error) {
	above := metav1.GetControllerOf(app)
	if above == nil {
		return app.Generation, nil
	}
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: above.APIVersion, Kind: above.Kind}}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: above.Name}, object)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		// Nobody here could have changed it.
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read %s %q: %w", above.Kind, above.Name, err)
	}
	return object.Generation, nil
}

// runs says whether any component has been asked to run.
func runs(f *facts) bool {
	for _, component := range f.components {
		if component.Spec.IsRunning() {
			return true
		}
	}
	return false
}

// differences are what the spec asks and the Components were made without. It is what users wrote, not what follows
// from that.
func differences(app *platformv1.Application, f *facts, wanted []platformv1.ComponentSpec) []opsflow.Difference {
	before, after := map[string]any{}, map[string]any{}
	for i := range wanted {
		spec := wanted[i].DeepCopy()
		spec.Running = new(app.Spec.IsRunning())
		tellComponent(after, spec)
		if live := f.components[spec.Component]; live != nil {
			spec := live.Spec.DeepCopy()
			spec.Running = new(runs(f))
			tellComponent(before, spec)
		}
	}
	differences := opsflow.Compare(before, after)
	for i := range differences {
		differences[i].Field = strings.ReplaceAll(differences[i].Field, ".sets["+platformv1.DefaultSet+"]", "")
	}
	return differences
}

// words say differences in fields of the object that declares the Application, where it has them, and else in those of
// the Application.
func (c *Controller) words(app *platformv1.Application, differences []opsflow.Difference) []string {
	of, _ := opsflow.DeclaredBy(app)
	kind := c.Kinds[of]
	words := make([]string, 0, len(differences))
	for _, difference := range differences {
		if kind == nil {
			words = append(words, "spec."+difference.String())
			continue
		}
		if declared, can := difference.DeclaredAs(kind); can {
			words = append(words, "spec."+declared.String())
			continue
		}
		words = append(words, fmt.Sprintf("of Application %s spec.%s", app.Name, difference))
	}
	return words
}

// common are the fields of a Component that stand in the Application for all of them; derived are in none.
var (
	common = []string{"version", "topology", "running", "suspend", "maintenance", "failover", "networkPolicy",
		"adoptVolumes", "tls", "deletionPolicy"}
	derived = []string{"application", "component", "plugin", "credentials"}
)

// tellComponent adds what a Component says to the fields of an Application.
func tellComponent(fields map[string]any, spec *platformv1.ComponentSpec) {
	own := map[string]any{}
	data, err := json.Marshal(spec)
	if err != nil || json.Unmarshal(data, &own) != nil {
		// Such a spec could not have been stored.
		return
	}
	for _, name := range derived {
		delete(own, name)
	}
	for _, name := range common {
		if value, ok := own[name]; ok {
			fields[name] = value
		}
		delete(own, name)
	}
	if place := spec.Archive; place != nil {
		fields["archive"] = map[string]any{"repositoryRef": map[string]any{"name": place.Repository}}
	}
	delete(own, "archive")
	var credentials []any
	for _, credential := range spec.Credentials {
		from := credential.PasswordFrom
		credentials = append(credentials, map[string]any{"name": credential.Name, "passwordFrom": from.Name + "/" + from.Key})
	}
	if len(credentials) > 0 {
		fields["credentials"] = credentials
	}
	if len(spec.Sets) == 1 && spec.Sets[0].Name == platformv1.DefaultSet {
		delete(own, "sets")
		set := map[string]any{}
		if data, err := json.Marshal(spec.Sets[0]); err == nil && json.Unmarshal(data, &set) == nil {
			delete(set, "name")
			maps.Copy(own, set)
		}
	}
	own["name"] = spec.Component
	list, _ := fields["components"].([]any)
	fields["components"] = append(list, own)
	if spec.Plugin.Version != "" {
		fields["pluginVersion"] = spec.Plugin.Version
	}
}
