// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/frame"
)

// noHTTPRoutes says what to do where the Gateway API is not installed.
const noHTTPRoutes = "the cluster has no kind HTTPRoute (gateway.networking.k8s.io/v1) to lead clients to the pods: " +
	"install the Gateway API and a controller of it, or use another way; once the kind is there, this goes on by itself"

// routeFacts are what one turn knows of the HTTPRoutes of a component.
type routeFacts struct {
	// installed says that the kind HTTPRoute is there.
	installed bool
	// routes that the component owns.
	routes []*unstructured.Unstructured
}

// observeRoutes looks for HTTPRoutes only where the plugin declares some, or there were some: the condition stays until
// they are gone.
func (c *Controller) observeRoutes(ctx context.Context, component *platformv1.Component, f *facts) error {
	if !f.declaresRoutes(component) && conditions.Get(component, platformv1.RoutedCondition) == nil {
		return nil
	}
	var err error
	if f.routes.installed, err = c.Routes.Installed(ctx); err != nil || !f.routes.installed {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(render.HTTPRouteKind.GroupVersion().WithKind(render.HTTPRouteKind.Kind + "List"))
	if err := c.Routes.Client().List(ctx, list, ofComponent(component)...); err != nil {
		return err
	}
	f.routes.routes = owned(list.Items, component)
	return nil
}

// declaresRoutes says whether the plugin has routes for the component, wanted or not.
func (f *facts) declaresRoutes(component *platformv1.Component) bool {
	if f.state.Bundle == nil {
		return false
	}
	declared, found := f.state.Bundle.Component(component.Spec.Component)
	return found && len(declared.Routes) > 0
}

// route keeps the HTTPRoutes, says in a condition how that went, and returns how soon to look again; 0 for not before
// something changes. The instance itself is ready without them. Its Ingresses are there when this is called.
func (c *Controller) route(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) time.Duration {
	report := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(component, metav1.Condition{Type: platformv1.RoutedCondition, Status: status, Reason: reason,
			Message: message})
	}
	refused := func(what string, err error) time.Duration {
		if apierrors.IsConflict(err) {
			return frame.Recheck
		}
		report(metav1.ConditionFalse, platformv1.ReasonRouteRefused, "the HTTPRoute "+what+": "+err.Error())
		return refusedRecheck
	}
	wanted := output.HTTPRoutes
	if len(wanted) > 0 && f.routes.installed && conditions.Get(component, platformv1.RoutedCondition) == nil {
		// That there may be some is on record before there are: they are looked for when they are no longer wanted.
		report(metav1.ConditionFalse, platformv1.ReasonProgressing, "the HTTPRoutes are being made")
		return frame.Recheck
	}
	for _, route := range f.routes.unwanted(wanted) {
		if err := c.others.Delete(ctx, route); err != nil {
			return refused(route.GetName()+" cannot be removed", err)
		}
	}
	switch {
	case len(wanted)+len(output.Ingresses) == 0:
		conditions.Remove(component, platformv1.RoutedCondition)
		return 0
	case len(wanted) > 0 && !f.routes.installed:
		report(metav1.ConditionFalse, platformv1.ReasonHTTPRouteNotFound, noHTTPRoutes)
		c.Routes.Await("Component", client.ObjectKeyFromObject(component))
		return 0
	}
	for _, route := range wanted {
		err := controllerutil.SetControllerReference(component, route, c.client.Scheme())
		if err == nil {
			_, err = c.others.Apply(ctx, route)
		}
		if err != nil {
			return refused(route.GetName()+" cannot be made", err)
		}
	}
	report(metav1.ConditionTrue, platformv1.ReasonRoutesApplied, "clients outside of the cluster are led to the pods")
	return 0
}

// unwanted are the routes that the component owns and that are not among those.
func (r *routeFacts) unwanted(wanted []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(r.routes), func(route *unstructured.Unstructured) bool {
		return route.GetDeletionTimestamp() != nil || slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool {
			return w.GetName() == route.GetName()
		})
	})
}
