// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestParametersAreTextOrWholeNumbers applies them on the server, as GitOps managers do: it reads the schema more
// strictly than a create does.
func TestParametersAreTextOrWholeNumbers(t *testing.T) {
	namespace := env.Namespace(t)
	for name, c := range map[string]struct {
		value   any
		refused bool
	}{
		"number":     {value: int64(2)},
		"text":       {value: "2"},
		"truth":      {value: true, refused: true},
		"fraction":   {value: 2.5, refused: true},
		"list":       {value: []any{"2"}, refused: true},
		"line-break": {value: "2\nsave 1 1", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			app := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": name, "namespace": namespace},
				"spec": map[string]any{
					"plugin": "shop", "pluginVersion": "1.0.0", "version": "1.0", "topology": "single",
					"components": []any{map[string]any{"name": "cache", "parameters": map[string]any{"level": c.value}}},
				},
			}}
			app.SetGroupVersionKind(platformv1.GroupVersion.WithKind("Application"))
			wanted := maps.Clone(app.Object)
			err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(app), client.FieldOwner("gitops"))
			if c.refused {
				if err == nil {
					t.Errorf("%v was taken", c.value)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Read back as it was written, and as the engine reads it.
			stored := &platformv1.Application{}
			if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.Spec.Components[0].Parameters["level"]; got != "2" {
				t.Errorf("read %q, want 2", got)
			}
			again := &unstructured.Unstructured{Object: wanted}
			if err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(again),
				client.FieldOwner("gitops")); err != nil {
				t.Error(err)
			}
		})
	}
}
