// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSamplesOfEveryOperatorHaveAnObject holds what "kubectl apply -k config/samples" needs: files that exist, and at
// least one object, without which kubectl fails.
func TestSamplesOfEveryOperatorHaveAnObject(t *testing.T) {
	paths, err := filepath.Glob("../../*-operator/config/samples/kustomization.yaml")
	if err != nil || len(paths) != 6 {
		t.Fatalf("%d operators have samples, want 6: %v", len(paths), err)
	}
	for _, path := range paths {
		var kustomization struct{ Resources []string }
		if err := yaml.UnmarshalStrict([]byte(read(t, path)), &kustomization); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if len(kustomization.Resources) == 0 {
			t.Errorf("%s has no resources: kubectl apply -k fails without an object", path)
		}
		for _, resource := range kustomization.Resources {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), resource)); err != nil {
				t.Errorf("%s: resource %q: %v", path, resource, err)
			}
		}
	}
}
