// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// findSources chooses a pod of each set, where each has a part of the data. None is taken while parts may be on their
// way from one set to another.
func (c *Controller) findSources(ctx context.Context, b *platformv1.Backup, seen *observation) error {
	f := &seen.facts
	component := &platformv1.Component{}
	name := platformv1.ComponentNameFor(b.Spec.ApplicationRef.Name, f.component)
	err := c.client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, component)
	if apierrors.IsNotFound(err) {
		f.waits = fmt.Sprintf("component %q, which does not exist", f.component)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read Component %q: %w", name, err)
	}
	if f.waits = unsettled(component); f.waits != "" {
		return nil
	}
	pods, err := c.podsOf(ctx, b, seen)
	if err != nil {
		return err
	}
	for _, set := range component.Spec.Sets {
		its := slices.DeleteFunc(slices.Clone(pods),
			func(pod corev1.Pod) bool { return pod.Labels[platformv1.SetLabel] != set.Name })
		source, waits := chosen(seen, its)
		if source == nil {
			f.sources, f.waits = nil, fmt.Sprintf("set %q: %s", set.Name, waits)
			return nil
		}
		f.sources = append(f.sources, *source)
	}
	return nil
}

// unsettled says what is waited for while the sets of a component are not those that it is to have, or its members are
// being brought together.
func unsettled(component *platformv1.Component) string {
	has := func(name string) bool {
		return slices.ContainsFunc(component.Spec.Sets, func(set platformv1.ComponentSet) bool { return set.Name == name })
	}
	switch call := component.Status.Membership; {
	case call != nil:
		return fmt.Sprintf("the members of component %q, which are being brought together: %s", component.Spec.Component,
			call.Message)
	case component.Status.ObservedGeneration != component.Generation,
		len(component.Status.Sets) != len(component.Spec.Sets),
		slices.ContainsFunc(component.Status.Sets, func(set platformv1.SetState) bool { return !has(set.Name) }):
		return fmt.Sprintf("component %q, whose sets are being changed", component.Spec.Component)
	}
	return ""
}

// settled passes the Components on which findSources may have waited.
var settled = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*platformv1.Component), e.ObjectNew.(*platformv1.Component)
		return unsettled(before) != "" && unsettled(after) == ""
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// ofComponent wakes the Backups that wait for a component of their Application.
func (c *Controller) ofComponent(ctx context.Context, obj client.Object) []reconcile.Request {
	application := obj.(*platformv1.Component).Spec.Application
	return c.pending(ctx, obj.GetNamespace(), client.MatchingLabels{platformv1.ApplicationLabel: application},
		func(*platformv1.Backup) bool { return true })
}
