// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// act applies the Services and the walls before the sets, so that pods find their names, budgets once there are pods,
// and removes what is no longer wanted.
func (c *Controller) act(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) outcome.Outcome {
	wanted := wantedObjects(component, f, output)
	names := map[string]bool{}
	for _, obj := range wanted {
		names[keyOf(obj)] = true
	}
	for _, service := range f.stillLead(output) {
		names[keyOf(service)] = true
	}
	for _, obj := range f.extras {
		// The budget of a set that has yet to go has its name.
		if slices.Contains(f.kept, obj.GetName()) {
			names[keyOf(obj)] = true
		}
	}
	// An autoscaler that goes must not scale a set once more that has its number from the spec again.
	if err := c.prune(ctx, component, objects(f.autoscalers), names); err != nil {
		return outcome.Failed(err)
	}
	for _, obj := range wanted {
		if set, isSet := obj.(*platformv1.WorkloadSet); isSet &&
			(f.awaits(set, output) || f.awaitsAddress(set.Name, output) != "") {
			continue
		}
		change, err := c.applyEach(ctx, component, f, obj)
		if _, isService := obj.(*corev1.Service); isService && apierrors.IsInvalid(err) {
			// A port of the nodes, or an address, may be that of another Service, which can let go of it.
			return outcome.StalledFor(refusedRecheck, platformv1.ReasonInvalidSpec, err.Error())
		}
		if apierrors.IsInvalid(err) {
			// The API server knows better than the renderer what cannot be: nothing changes until the spec is mended.
			return outcome.Stalled(platformv1.ReasonInvalidSpec, err.Error())
		}
		if role, isRole := obj.(*rbacv1.Role); isRole && apierrors.IsForbidden(err) {
			return outcome.StalledFor(refusedRecheck, platformv1.ReasonForbidden, fmt.Sprintf(
				"Role %q lets the pods do what the operator may not do itself, so it cannot grant it: %v; give the "+
					"operator's account these rights", role.Name, err))
		}
		if err != nil {
			return apply.Outcome(err)
		}
		if _, isSet := obj.(*platformv1.WorkloadSet); isSet && change != apply.Unchanged {
			f.written = append(f.written, obj.GetName())
		}
	}
	return outcome.Failed(c.prune(ctx, component, f.owned(), names))
}

// prune deletes those that are not among the wanted. A set may take its volumes along: none goes by a component that
// was changed since it was cached, which may want it again, or have been read before it did.
func (c *Controller) prune(ctx context.Context, component *platformv1.Component, objects []client.Object,
	wanted map[string]bool) error {
	for _, obj := range objects {
		if wanted[keyOf(obj)] || obj.GetDeletionTimestamp() != nil {
			continue
		}
		if _, isSet := obj.(*platformv1.WorkloadSet); isSet {
			if err := c.apply.Current(ctx, component); err != nil {
				return err
			}
		}
		if err := c.apply.Delete(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

func wantedObjects(component *platformv1.Component, f *facts, output *render.ComponentOutput) []client.Object {
	var objects []client.Object
	for _, service := range output.Services {
		objects = append(objects, service)
	}
	if output.NetworkPolicy != nil {
		objects = append(objects, output.NetworkPolicy)
	}
	for _, ingress := range output.Ingresses {
		objects = append(objects, ingress)
	}
	if output.Role != nil {
		// The API server takes no binding of a Role that it does not know.
		objects = append(objects, output.Role, output.RoleBinding)
	}
	for _, budget := range output.Budgets {
		if f.guards(budget) {
			objects = append(objects, budget)
		}
	}
	for _, set := range output.WorkloadSets {
		objects = append(objects, workloadSet(component, set))
	}
	for _, autoscaler := range output.Autoscalers {
		objects = append(objects, autoscaler)
	}
	return objects
}

// guards says whether there are pods for a budget, which has the name of its set, or the budget is there already. One
// without pods would guard nothing, and have Kubernetes complain in an event and go over it with each pod that comes.
func (f *facts) guards(budget *policyv1.PodDisruptionBudget) bool {
	set, found := f.sets[budget.Name]
	return found && set.Status.Replicas > 0 ||
		slices.ContainsFunc(f.extras, func(obj client.Object) bool { return keyOf(obj) == keyOf(budget) })
}

// applyEach applies an object. A set is one that others edit.
func (c *Controller) applyEach(ctx context.Context, component *platformv1.Component, f *facts, obj client.Object) (
	apply.Change, error) {
	if set, isSet := obj.(*platformv1.WorkloadSet); isSet {
		return c.applySet(ctx, component, f, set)
	}
	return c.applyOwned(ctx, component, obj)
}

// applyWanted applies a set, one that is autoscaled without its number of pods.
func (c *Controller) applyWanted(ctx context.Context, component *platformv1.Component, f *facts,
	set *platformv1.WorkloadSet) (apply.Change, error) {
	live := f.sets[set.Name]
	switch {
	case set.Spec.Scaling == platformv1.SetScalingAuto:
		return c.applyAutoscaled(ctx, component, live, set)
	case live == nil:
		return c.applyOwned(ctx, component, set)
	}
	if err := controllerutil.SetControllerReference(component, set, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.ApplyTo(ctx, live, set)
}

// owned are the objects that go when they are no longer wanted.
func (f *facts) owned() []client.Object {
	var objects []client.Object
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		objects = append(objects, f.sets[name])
	}
	for _, service := range f.podServices() {
		objects = append(objects, service)
	}
	return append(objects, f.extras...)
}

// keyOf tells objects of different kinds with the same name apart.
func keyOf(obj client.Object) string { return fmt.Sprintf("%T %s", obj, obj.GetName()) }

// hold passes the wish to be left alone down to the sets, and nothing else.
func (c *Controller) hold(ctx context.Context, f *facts) outcome.Outcome {
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		set := f.sets[name]
		if set.Spec.Suspend || set.DeletionTimestamp != nil {
			continue
		}
		if err := c.reverter.Suspend(ctx, set); err != nil {
			return apply.Outcome(err)
		}
	}
	return outcome.Held(platformv1.ReasonSuspended, "suspend is true, so that nothing is changed or repaired: set "+
		"spec.suspend to false to resume")
}

func (c *Controller) applyOwned(ctx context.Context, component *platformv1.Component,
	obj client.Object) (apply.Change, error) {
	if err := controllerutil.SetControllerReference(component, obj, c.client.Scheme()); err != nil {
		return apply.Unchanged, err
	}
	return c.apply.Apply(ctx, obj)
}

func workloadSet(component *platformv1.Component, output render.WorkloadSetOutput) *platformv1.WorkloadSet {
	labels := maps.Clone(component.Labels)
	labels[platformv1.SetLabel] = output.Spec.Set
	return &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: component.Namespace, Name: output.Name, Labels: labels},
		Spec:       output.Spec,
	}
}
