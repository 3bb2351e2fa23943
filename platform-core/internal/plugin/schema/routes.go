// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
)

// RouteKind is the kind of the object that a Route becomes.
type RouteKind string

// Values of RouteKind.
const (
	RouteIngress   RouteKind = "Ingress"
	RouteHTTPRoute RouteKind = "HTTPRoute"
)

// Route leads clients outside of the cluster by HTTP to a Service of the component. Texts of When and of all fields
// from Hosts on may hold placeholders.
type Route struct {
	// Kind of the object.
	Kind RouteKind `json:"kind"`
	// Name: "<application>" when empty, else "<application>-<name>".
	Name string `json:"name,omitempty"`
	// When is a CEL expression that says whether there is such an object; always when empty.
	When string `json:"when,omitempty"`
	// Service that it leads to, by its name in the component's services.
	Service string `json:"service,omitempty"`
	// Port of that Service, by name.
	Port string `json:"port"`
	// Hosts that it is for: DNS names, of which each may begin with "*.".
	Hosts []string `json:"hosts"`
	// Path that requests begin with. Default "/".
	Path string `json:"path,omitempty"`
	// Annotations of the object; those that turn out to be empty are left out.
	Annotations map[string]string `json:"annotations,omitempty"`
	// ClassName of an Ingress; the cluster's default when empty.
	ClassName string `json:"className,omitempty"`
	// TLSSecret is the Secret with the certificate of an Ingress; no TLS when empty.
	TLSSecret string `json:"tlsSecret,omitempty"`
	// Gateway of an HTTPRoute: its name, after its namespace and "/" where that is another one.
	Gateway string `json:"gateway,omitempty"`
}

// DefaultRoutePath of a route that names none.
const DefaultRoutePath = "/"

// PathOrDefault is what requests begin with.
func (r *Route) PathOrDefault() string { return cmp.Or(r.Path, DefaultRoutePath) }
