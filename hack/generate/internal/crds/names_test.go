// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// The definition of every kind that becomes Services refuses, before an object is stored, a name that cannot be part of
// that of a Service, or is too long.
func TestDefinitionsRefuseNames(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "*-operator", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are definitions %q: %v", files, err)
	}
	core := filepath.Join(root, "platform-core", "config", "crd", "bases")
	files = append(files, filepath.Join(core, "platform.zeroinfra.github.com_applications.yaml"))
	for _, file := range files {
		definition, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(definition), " pluginVersion:\n") {
			continue // It becomes no instance.
		}
		for _, want := range []string{"size(self.metadata.name) <=", "part of the name of a Service"} {
			if !strings.Contains(strings.Join(strings.Fields(string(definition)), " "), want) {
				t.Errorf("%s has no rule with %q on metadata.name", filepath.Base(file), want)
			}
		}
	}
}
