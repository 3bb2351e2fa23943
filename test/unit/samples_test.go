// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// TestDemoUsesEverySample holds that `make demo` has a client for each kind that it applies: without one it ends with
// an error once all are Ready.
func TestDemoUsesEverySample(t *testing.T) {
	var known []string
	for _, kinds := range regexp.MustCompile(`(?m)^  ([A-Za-z| ]+)\) in_client `).FindAllStringSubmatch(
		read(t, "../../hack/cluster/demo.sh"), -1) {
		known = append(known, strings.Split(kinds[1], " | ")...)
	}
	samples, err := filepath.Glob("../../database-operator/config/samples/database_v1_*.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	typed := regexp.MustCompile(`(?m)^apiVersion: database\.zeroinfra\.github\.com/v1\nkind: (\w+)$`)
	for _, path := range samples {
		kinds := typed.FindAllStringSubmatch(read(t, path), -1)
		if len(kinds) == 0 {
			t.Errorf("%s has no object of the domain", path)
		}
		for _, kind := range kinds {
			if !slices.Contains(known, kind[1]) {
				t.Errorf("%s: demo.sh has no client of kind %q, but of %q", path, kind[1], known)
			}
		}
	}
}
