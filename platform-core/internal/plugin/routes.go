// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// routeTexts are the fields of a route whose texts may hold placeholders.
var routeTexts = []string{whenKey, "hosts", "path", "annotations", "className", "tlsSecret", "gateway"}

// ofRoute says whether a path of components.yaml leads to such a text.
func ofRoute(path document.Path) bool {
	return len(path) > 4 && path[0] == "components" && path[2] == "routes" && slices.Contains(routeTexts, path[4])
}

// RenderRoutes fills in the placeholders of a component's routes, and leaves out those whose condition is not
// fulfilled. It refuses what no object of the kind can have.
func (b *Bundle) RenderRoutes(component string, v placeholder.Values) ([]schema.Route, error) {
	index := slices.IndexFunc(b.Components.Components, func(c schema.Component) bool { return c.Name == component })
	if index < 0 {
		return nil, fmt.Errorf("cannot render the routes of component %q: plugin %q has no such component", component,
			b.Manifest.Name)
	}
	path := componentPath(index, "routes")
	if b.plans.at(path) == nil {
		return nil, nil
	}
	value, err := b.plans.evaluate(path, func(_ document.Path, t *placeholder.Template) (any, error) { return t.Eval(v) })
	if err != nil {
		return nil, err
	}
	var routes []schema.Route
	if err := document.DecodeValue(value, &routes); err != nil {
		return nil, fmt.Errorf("cannot render the routes of component %q: %w", component, err)
	}
	for i := range routes {
		if err := checkRoute(&routes[i]); err != nil {
			return nil, &leafError{path: path, err: err}
		}
	}
	return routes, nil
}

// checkRoute refuses values that came out of placeholders.
func checkRoute(r *schema.Route) error {
	wrong := func(format string, args ...any) error {
		name := ""
		if r.Name != "" {
			name = fmt.Sprintf(" %q", r.Name)
		}
		return fmt.Errorf("%s%s has %s", r.Kind, name, fmt.Sprintf(format, args...))
	}
	for _, host := range r.Hosts {
		if problems := hostProblems(host); len(problems) > 0 {
			return wrong("the host %q, which is no DNS name: %s", host, problems[0])
		}
	}
	if r.Path != "" && (!strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, " \t\r\n?#")) {
		return wrong("the path %q: it must begin with / and have neither blanks nor ? nor #", r.Path)
	}
	for _, field := range []struct{ name, value string }{{"className", r.ClassName}, {"tlsSecret", r.TLSSecret}} {
		if field.value != "" && len(validation.IsDNS1123Subdomain(field.value)) > 0 {
			return wrong("the %s %q, which is no name of an object", field.name, field.value)
		}
	}
	namespace, gateway, found := strings.Cut(r.Gateway, "/")
	if !found {
		namespace, gateway = "default", r.Gateway
	}
	if r.Kind == schema.RouteHTTPRoute &&
		len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(gateway)) > 0 {
		return wrong("the gateway %q: it must be the name of a Gateway, or its namespace, / and its name", r.Gateway)
	}
	return nil
}

// literally is the route with something that can be in place of each placeholder: what is left is judged when the
// plugin loads, whatever the condition gives.
func literally(r schema.Route) *schema.Route {
	literal := func(text, sample string) string {
		if placeholder.In(text) {
			return sample
		}
		return text
	}
	r.Hosts = slices.Clone(r.Hosts)
	for i, host := range r.Hosts {
		r.Hosts[i] = literal(host, "sample")
	}
	r.Path, r.ClassName = literal(r.Path, schema.DefaultRoutePath), literal(r.ClassName, "sample")
	r.TLSSecret, r.Gateway = literal(r.TLSSecret, "sample"), literal(r.Gateway, "sample")
	return &r
}

// hostProblems says why a text is no name of a host.
func hostProblems(host string) []string {
	if strings.HasPrefix(host, "*.") {
		return validation.IsWildcardDNS1123Subdomain(host)
	}
	return validation.IsDNS1123Subdomain(host)
}

// checkRoutes: each leads to a port of a Service for clients, and has the fields of its kind.
func (l *loader) checkRoutes(path document.Path, c *schema.Component) {
	unique(l, path, c.Routes, func(r schema.Route) string { return strings.TrimSuffix(string(r.Kind)+" "+r.Name, " ") })
	for i, r := range c.Routes {
		at := path.Index(i)
		j := slices.IndexFunc(c.Services, func(s schema.Service) bool { return s.Name == r.Service })
		switch {
		case j < 0 && r.Service == "":
			l.wrong(at, "leads to the Service without a name, which the component does not have: set service to the name of one")
		case j < 0:
			l.oneOf(at.With("service"), r.Service, "Service", names(c.Services, func(s schema.Service) string { return s.Name }))
		case c.Services[j].Exposure == schema.ExposureInternal:
			l.wrong(at, "leads to a Service that is Internal: clients need one with exposure Client")
		default:
			l.oneOf(at.With("port"), r.Port, "port of that Service", slices.Clone(c.Services[j].Ports))
		}
		if r.Kind == schema.RouteIngress && r.Gateway != "" {
			l.wrong(at.With("gateway"), "is for an HTTPRoute: take it out")
		}
		if r.Kind == schema.RouteHTTPRoute && r.ClassName != "" {
			l.wrong(at.With("className"), "is for an Ingress: an HTTPRoute has a gateway, take it out")
		}
		if r.Kind == schema.RouteHTTPRoute && r.TLSSecret != "" {
			l.wrong(at.With("tlsSecret"), "is for an Ingress: the certificate of an HTTPRoute is its Gateway's, take it out")
		}
		if r.Kind == schema.RouteHTTPRoute && r.Gateway == "" {
			l.wrong(at, "has no gateway: an HTTPRoute needs one")
		} else if err := checkRoute(literally(r)); err != nil {
			l.wrong(at, "cannot be: %v", err)
		}
	}
}
