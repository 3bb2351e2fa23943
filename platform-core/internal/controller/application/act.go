// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/frame"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// act makes the credentials, then the Components, then the binding, and removes Components that are no longer wanted.
func (c *Controller) act(ctx context.Context, app *platformv1.Application, f *facts,
	wanted []platformv1.ComponentSpec) outcome.Outcome {
	if err := c.handOver(ctx, app, f, wanted); err != nil {
		return outcome.Failed(err)
	}
	if err := c.ensureCredentials(ctx, app, f); err != nil {
		return apply.Outcome(err)
	}
	if err := c.ensureAuthority(ctx, app, f); err != nil {
		return apply.Outcome(err)
	}
	if err := c.ensureTrust(ctx, app, f); err != nil {
		return apply.Outcome(err)
	}
	for _, declared := range f.credentialsOf() {
		if f.revisions[declared.Name] == "" {
			// Another replica or an earlier turn made one, and the cache does not have it yet.
			return outcome.WaitingFor(frame.Recheck, platformv1.ReasonProgressing, "credentials are being made")
		}
	}
	names := map[string]bool{}
	for i := range wanted {
		for j := range wanted[i].Credentials {
			credential := &wanted[i].Credentials[j]
			credential.Revision, credential.Also = f.revisions[credential.Name], f.handovers[credential.Name].also != ""
		}
		names[wanted[i].Component] = true
		change, o := c.applyComponent(ctx, app, f, &platformv1.Component{
			ObjectMeta: meta(app, platformv1.ComponentNameFor(app.Name, wanted[i].Component), wanted[i].Component),
			Spec:       wanted[i],
		})
		if change != apply.Unchanged {
			f.written = append(f.written, wanted[i].Component)
		}
		if o.Kind() != outcome.KindDone {
			return o
		}
	}
	err := c.ensureBinding(ctx, app, f)
	if err == nil {
		err = c.prune(ctx, app, f, names)
	}
	return apply.Outcome(err)
}

// prune deletes the Components that are not among the wanted. Their volumes may go with them: none goes by an
// Application that was changed since it was cached, which may want it again, or have been read before it did.
func (c *Controller) prune(ctx context.Context, app *platformv1.Application, f *facts, wanted map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		if wanted[name] || component.DeletionTimestamp != nil {
			continue
		}
		if err := c.apply.Current(ctx, app); err != nil {
			return err
		}
		if err := c.apply.Delete(ctx, component); err != nil {
			return err
		}
	}
	return nil
}

// hold passes the wish to be left alone down to the Components, and nothing else.
func (c *Controller) hold(ctx context.Context, f *facts) outcome.Outcome {
	for _, name := range slices.Sorted(maps.Keys(f.components)) {
		component := f.components[name]
		if component.Spec.Suspend || component.DeletionTimestamp != nil {
			continue
		}
		if err := c.reverter.Suspend(ctx, component); err != nil {
			return apply.Outcome(err)
		}
	}
	return outcome.Held(platformv1.ReasonSuspended, "suspend is true, so that nothing is changed or repaired: set "+
		"spec.suspend to false to resume")
}

func (c *Controller) applyOwned(ctx context.Context, app *platformv1.Application,
	obj client.Object) (apply.Change, error) {
	if err := controllerutil.SetControllerReference(app, obj, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.Apply(ctx, obj)
}

// meta is the metadata of what belongs to an Application, and to one of its components when that is not empty.
func meta(app *platformv1.Application, name, component string) metav1.ObjectMeta {
	labels := map[string]string{
		platformv1.ManagedByLabel:      platformv1.ManagedBy,
		platformv1.InstanceLabel:       app.Name,
		platformv1.NameLabel:           app.Spec.Plugin,
		platformv1.DomainLabel:         app.Labels[platformv1.DomainLabel],
		platformv1.ApplicationLabel:    app.Name,
		platformv1.ApplicationUIDLabel: string(app.UID),
	}
	if component != "" {
		labels[platformv1.ComponentLabel] = component
	}
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: name, Labels: labels}
}
