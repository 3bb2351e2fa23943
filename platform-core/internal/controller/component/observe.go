// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// facts are what one turn knows.
type facts struct {
	// state of the pinned plugin in the index; zero when it is not there.
	state plugin.State
	// sets that the component owns, by name.
	sets map[string]*platformv1.WorkloadSet
	// services that the component owns, by name.
	services map[string]*corev1.Service
	// extras are the PodDisruptionBudgets, NetworkPolicies, Ingresses, Roles and RoleBindings that the component owns.
	extras []client.Object
	// autoscalers are the HorizontalPodAutoscalers that the component owns.
	autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// tls is what is known of TLS.
	tls tlsFacts
	// monitoring is what is known of the PodMonitor.
	monitoring monitoringFacts
	// routes is what is known of HTTPRoutes.
	routes routeFacts
	// kept are the names of sets that are not wanted, and whose pods have yet to leave the cluster that they are members
	// of.
	kept []string
	// edited are the sets that others wrote to, by name, and that are to be as they are wanted.
	edited map[string]edited
	// written are the sets that this turn wrote: what sets says of them is older than that.
	written []string
}

func (c *Controller) observe(ctx context.Context, component *platformv1.Component) (*facts, error) {
	f := &facts{services: map[string]*corev1.Service{}}
	f.state, _ = c.Index.Get(component.Spec.Plugin.Name, component.Spec.Plugin.Version)
	if err := c.observeSets(ctx, component, f); err != nil {
		return nil, err
	}
	var services corev1.ServiceList
	var budgets policyv1.PodDisruptionBudgetList
	var policies networkingv1.NetworkPolicyList
	var autoscalers autoscalingv2.HorizontalPodAutoscalerList
	var ingresses networkingv1.IngressList
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&services, &budgets, &policies, &autoscalers, &ingresses, &roles, &bindings} {
		if err := c.list(ctx, component, list); err != nil {
			return nil, err
		}
	}
	for _, service := range owned(services.Items, component) {
		f.services[service.Name] = service
	}
	f.extras = slices.Concat(objects(owned(budgets.Items, component)), objects(owned(policies.Items, component)),
		objects(owned(ingresses.Items, component)), objects(owned(bindings.Items, component)),
		objects(owned(roles.Items, component)))
	f.autoscalers = owned(autoscalers.Items, component)
	if err := c.observeRoutes(ctx, component, f); err != nil {
		return nil, err
	}
	if err := c.observeMonitoring(ctx, component, f); err != nil {
		return nil, err
	}
	return f, c.observeTLS(ctx, component, f)
}

func (c *Controller) observeSets(ctx context.Context, component *platformv1.Component, f *facts) error {
	var sets platformv1.WorkloadSetList
	if err := c.list(ctx, component, &sets); err != nil {
		return err
	}
	f.sets = map[string]*platformv1.WorkloadSet{}
	for _, set := range owned(sets.Items, component) {
		f.sets[set.Name] = set
	}
	return nil
}

// list reads what has the labels of the component.
func (c *Controller) list(ctx context.Context, component *platformv1.Component, list client.ObjectList) error {
	return c.client.List(ctx, list, ofComponent(component)...)
}

// ofComponent selects what has the labels of the component.
func ofComponent(component *platformv1.Component) []client.ListOption {
	return []client.ListOption{client.InNamespace(component.Namespace), client.MatchingLabels{
		platformv1.ApplicationLabel: component.Spec.Application,
		platformv1.ComponentLabel:   component.Spec.Component,
	}}
}

// objects are the items of a list of one kind.
func objects[T client.Object](items []T) []client.Object {
	out := make([]client.Object, 0, len(items))
	for _, item := range items {
		out = append(out, item)
	}
	return out
}

// owned are those of the items that the component controls, by name: a cache lists them in no order, and what is done
// about them has one.
func owned[T any, P interface {
	*T
	client.Object
}](items []T, component *platformv1.Component) []P {
	var out []P
	for i := range items {
		if item := P(&items[i]); metav1.IsControlledBy(item, component) {
			out = append(out, item)
		}
	}
	slices.SortFunc(out, func(a, b P) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}
