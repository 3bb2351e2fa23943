// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// HTTPRouteKind is the Gateway API's kind of ways into the cluster by HTTP.
var HTTPRouteKind = kubeschema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}

// routes renders what leads clients outside of the cluster to the Services. One to a Service that is not there in this
// topology is left out.
func (c *context) routes(output *ComponentOutput) *Refusal {
	if len(c.declared.Routes) == 0 {
		return nil
	}
	values := placeholder.Values{}
	if len(c.spec.Sets) > 0 {
		values = c.of(&c.spec.Sets[0]).values()
	}
	params, err := c.bundle.ParametersInForce(c.declared, values, c.withArchive(c.spec.Parameters))
	if err != nil {
		return refuse(platformv1.ReasonInvalidParameters, "component %q: %v", c.spec.Component, err)
	}
	values.Params = params
	routes, err := c.bundle.RenderRoutes(c.spec.Component, values)
	if err != nil {
		return refuse(platformv1.ReasonInvalidSpec, "component %q cannot be rendered: %v", c.spec.Component, err)
	}
	for i := range routes {
		route := &routes[i]
		j := slices.IndexFunc(c.declared.Services, func(s schema.Service) bool { return s.Name == route.Service })
		if j < 0 || c.nobodyHas(c.declared.Services[j].Role) {
			continue
		}
		switch route.Kind {
		case schema.RouteIngress:
			output.Ingresses = append(output.Ingresses, c.ingress(route))
		case schema.RouteHTTPRoute:
			output.HTTPRoutes = append(output.HTTPRoutes, c.httpRoute(route))
		}
	}
	return nil
}

// routeMeta is the metadata of what a route becomes.
func (c *context) routeMeta(route *schema.Route) metav1.ObjectMeta {
	annotations := maps.Clone(route.Annotations)
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	return metav1.ObjectMeta{
		Name: plugin.ServiceNameFor(c.owner.Application, route.Name), Namespace: c.owner.Namespace,
		Labels: c.labels(), Annotations: annotations,
	}
}

// ingress has one rule for each host.
func (c *context) ingress(route *schema.Route) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: c.routeMeta(route),
	}
	if route.ClassName != "" {
		ingress.Spec.IngressClassName = &route.ClassName
	}
	if route.TLSSecret != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: slices.Clone(route.Hosts), SecretName: route.TLSSecret}}
	}
	path := networkingv1.HTTPIngressPath{
		Path: route.PathOrDefault(), PathType: new(networkingv1.PathTypePrefix),
		Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: plugin.ServiceNameFor(c.owner.Application, route.Service),
			Port: networkingv1.ServiceBackendPort{Name: route.Port},
		}},
	}
	for _, host := range route.Hosts {
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
			},
		})
	}
	return ingress
}

// httpRoute has one rule for all hosts. Its port is a number: the Gateway API has no names of ports.
func (c *context) httpRoute(route *schema.Route) *unstructured.Unstructured {
	parent := map[string]any{"name": route.Gateway}
	if namespace, name, found := strings.Cut(route.Gateway, "/"); found {
		parent = map[string]any{"namespace": namespace, "name": name}
	}
	var port int64
	for _, p := range c.declared.Ports {
		if p.Name == route.Port {
			port = int64(p.Port)
		}
	}
	var hosts []any
	for _, host := range route.Hosts {
		hosts = append(hosts, host)
	}
	meta := c.routeMeta(route)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{parent},
		"hostnames":  hosts,
		"rules": []any{map[string]any{
			"matches": []any{map[string]any{"path": map[string]any{
				"type": "PathPrefix", "value": route.PathOrDefault(),
			}}},
			"backendRefs": []any{map[string]any{
				"name": plugin.ServiceNameFor(c.owner.Application, route.Service), "port": port,
			}},
		}},
	}}}
	object.SetGroupVersionKind(HTTPRouteKind)
	object.SetName(meta.Name)
	object.SetNamespace(meta.Namespace)
	object.SetLabels(meta.Labels)
	if len(meta.Annotations) > 0 {
		object.SetAnnotations(meta.Annotations)
	}
	return object
}
