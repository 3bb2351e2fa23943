// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// gate is a plugin with routes and permissions, after changes of its texts.
func gate(t testing.TB, changes ...string) *plugin.Bundle {
	t.Helper()
	sources, errs := plugin.LoadFolder(os.DirFS(filepath.Join("..", "engine", "testdata", "plugins", "gate", "1.0.0")),
		"gate")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return changed(t, sources, changes...)
}

// gates is an Application of it.
func gates(parameters platformv1.Parameters) *platformv1.Application {
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "shop", UID: "u"},
		Spec: platformv1.ApplicationSpec{Plugin: "gate", PluginVersion: "1.0.0", Version: "1.0", Topology: "plain",
			Components: []platformv1.ApplicationComponent{{Name: "gate", Parameters: parameters}}},
	}
}

// TestRoutesFollowTheParameters: what turns out to be empty is left out. Everything else is in the plugin's golden
// files.
func TestRoutesFollowTheParameters(t *testing.T) {
	none := output(t, gate(t), gates(nil))
	if len(none.Ingresses)+len(none.HTTPRoutes) > 0 {
		t.Errorf("there are routes that nobody wants: %v %v", none.Ingresses, none.HTTPRoutes)
	}
	out := output(t, gate(t), gates(platformv1.Parameters{"host": "*.example.com", "gateway": "edge"}))
	if len(out.Ingresses) != 1 || len(out.HTTPRoutes) != 1 {
		t.Fatalf("there are %v and %v", out.Ingresses, out.HTTPRoutes)
	}
	ingress := out.Ingresses[0]
	if !maps.Equal(ingress.Annotations, map[string]string{"example.com/body-size": "8m"}) ||
		ingress.Spec.IngressClassName != nil || len(ingress.Spec.TLS) > 0 || ingress.Spec.Rules[0].Host != "*.example.com" {
		t.Errorf("the Ingress is %+v", ingress)
	}
	parents, _, _ := unstructured.NestedSlice(out.HTTPRoutes[0].Object, "spec", "parentRefs")
	if len(parents) != 1 || !maps.Equal(parents[0].(map[string]any), map[string]any{"name": "edge"}) {
		t.Errorf("the HTTPRoute is for %v", parents)
	}
	if before, after := none.WorkloadSets[0].Spec, out.WorkloadSets[0].Spec; before.Revision != after.Revision ||
		string(before.Plan.Raw) != string(after.Plan.Raw) {
		t.Error("a route is a change of the pods")
	}
}

func TestRoutesThatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters platformv1.Parameters
		says       string
	}{
		"host":           {platformv1.Parameters{"host": "a b"}, `Ingress has the host "a b", which is no DNS name`},
		"many in a host": {platformv1.Parameters{"host": "a.*.example.com"}, "which is no DNS name"},
		"class":          {platformv1.Parameters{"host": "a", "class": "A"}, `the className "A", which is no name`},
		"Secret": {platformv1.Parameters{"host": "a", "certificate": "a/b"},
			`the tlsSecret "a/b", which is no name`},
		"gateway":          {platformv1.Parameters{"gateway": "a/b/c"}, `the gateway "a/b/c"`},
		"namespace":        {platformv1.Parameters{"gateway": "/c"}, `the gateway "/c"`},
		"gateway, no name": {platformv1.Parameters{"gateway": "c/"}, `HTTPRoute "admin" has the gateway "c/"`},
	} {
		t.Run(name, func(t *testing.T) {
			specs, refusal := Components(gate(t), gates(tc.parameters))
			if refusal == nil {
				_, refusal = Component(gate(t), settings, Meta{Application: "g", Namespace: "shop"}, &specs[0])
			}
			if refusal == nil || refusal.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(refusal.Message, tc.says) {
				t.Errorf("got %v, want %q", refusal, tc.says)
			}
		})
	}
}

// TestProcessHasTheTokenWithPermissionsOnly: one more plugin version that asks for it replaces the pods.
func TestProcessHasTheTokenWithPermissionsOnly(t *testing.T) {
	const permissions = "    permissions:\n      - resources: [pods, services]\n        verbs: [get, list, watch]\n"
	with, without := output(t, gate(t), gates(nil)), output(t, gate(t, permissions, ""), gates(nil))
	if without.Role != nil || without.RoleBinding != nil {
		t.Errorf("there is a Role %v", without.Role)
	}
	if with.WorkloadSets[0].Spec.Revision == without.WorkloadSets[0].Spec.Revision {
		t.Error("the pods stay as they were, without the token")
	}
	mounts := func(out *ComponentOutput) int {
		return strings.Count(string(out.WorkloadSets[0].Spec.Template.Raw), `"mountPath":"`+tokenDir+`"`)
	}
	if with, without := mounts(with), mounts(without); with != 2 || without != 1 {
		t.Errorf("%d and %d containers have the token, want 2 and 1", with, without)
	}
}
