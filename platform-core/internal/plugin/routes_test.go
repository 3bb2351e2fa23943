// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// gateSources reads a plugin with routes and permissions.
func gateSources(t testing.TB) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(filepath.Join("..", "engine", "testdata", "plugins", "gate", "1.0.0")), "gate")
	if len(errs) > 0 {
		t.Fatalf("the gate plugin cannot be read: %v", errs)
	}
	return sources
}

func TestGateLoads(t *testing.T) {
	if bundle, errs := Load(gateSources(t)); bundle == nil || len(errs) > 0 {
		t.Fatalf("the gate plugin is refused:\n%s", list(errs))
	}
}

func TestBrokenRoutes(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{plugin: "gate", part: PartComponents, key: components, old: old, new: new, at: at, says: says}
	}
	run(t, map[string]broken{
		"kind": c("kind: Ingress", "kind: Route", "kind: Route", `one of "Ingress" or "HTTPRoute"`),
		"one name": c("kind: HTTPRoute\n        name: admin", "kind: Ingress",
			"kind: Ingress\n        when: params['gateway']",
			"names must differ"),
		"Service unknown": c("service: admin", "service: shop", "service: shop", `names the Service "shop"`),
		"Service inside": c("service: admin", "service: inside", "kind: HTTPRoute",
			"a Service that is Internal: clients need one"),
		"port unknown": c("        port: http\n        hosts", "        port: admin\n        hosts",
			"port: admin\n        hosts", `names the port of that Service "admin"`),
		"no hosts": c(`        hosts: ["${params['host']}"]`, "        hosts: []", "hosts: []",
			"a list of at least one host"),
		"host": c("admin.${app.name}.example.com", "Admin", "kind: HTTPRoute",
			`has the host "Admin", which is no DNS name`),
		"path":        c("path: /admin", "path: admin", "kind: HTTPRoute", "it must begin with /"),
		"gateway":     c("className:", "gateway: edge\n        className:", "gateway: edge", "is for an HTTPRoute"),
		"class":       c("path: /admin", "className: edge", "className: edge", "is for an Ingress"),
		"certificate": c("path: /admin", "tlsSecret: edge", "tlsSecret: edge", "its Gateway's"),
		"no gateway": c("        gateway: \"${params['gateway']}\"\n", "", "kind: HTTPRoute",
			"has no gateway: an HTTPRoute needs one"),
		"condition": c("when: params['host'] != ''", "when: params['host']", "when: params['host']",
			"must give true or false"),
		"of a set": c("admin.${app.name}.example.com", "${set.name}.example.com", "${set.name}",
			"undeclared reference to 'set'"),
		"of a pod": c("admin.${app.name}.example.com", "${pod.name}.example.com", "${pod.name}",
			"undeclared reference to 'pod'"),
		"a placeholder in a name": c("        name: admin\n        when", "        name: \"${app.name}\"\n        when",
			"name: \"${app.name}\"", "a placeholder is not allowed here"),
	})
}

func TestBrokenPermissions(t *testing.T) {
	c := func(old, new, says string) broken {
		return broken{plugin: "gate", part: PartComponents, key: components, old: old, new: new, at: new, says: says}
	}
	run(t, map[string]broken{
		"secrets":    c("resources: [pods, services]", "resources: [secrets]", "an operator grants nothing else"),
		"everything": c("resources: [pods, services]", `resources: ["*"]`, "an operator grants nothing else"),
		"writing":    c("verbs: [get, list, watch]", "verbs: [get, create]", "pods change nothing"),
		"no verb":    c("verbs: [get, list, watch]", "verbs: []", "at least one verb"),
	})
}

// What a plugin can let its pods read is what every operator may read itself, since the API server lets nobody grant
// more; and the schema takes each of it.
func TestGrantedIsWhatTheOperatorHas(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "engine_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)).Decode(&role); err != nil {
		t.Fatal(err)
	}
	for _, resource := range GrantableResources {
		for _, verb := range GrantableVerbs {
			if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.APIGroups, "") && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
			}) {
				t.Errorf("an operator may not %s %s itself", verb, resource)
			}
			sources := gateSources(t)
			edit(t, sources, PartComponents, components, "resources: [pods, services]", "resources: ["+resource+"]")
			edit(t, sources, PartComponents, components, "verbs: [get, list, watch]", "verbs: ["+verb+"]")
			if _, errs := Load(sources); len(errs) > 0 {
				t.Errorf("%s %s: %s", verb, resource, list(errs))
			}
		}
	}
}
