// SPDX-License-Identifier: Apache-2.0

// Package unit has the suite-wide checks that need nothing but the files of the repository.
package unit

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// maxDefinition keeps a definition small enough for "kubectl apply", which stores it a second time in an annotation of
// at most 256 KiB.
const maxDefinition = 256 << 10

// TestDefinitionsAreSmall looks at every file of the repository that is a CustomResourceDefinition.
func TestDefinitionsAreSmall(t *testing.T) {
	for path, data := range definitions(t) {
		if len(data) > maxDefinition {
			t.Errorf("%s: the definition has %d bytes, want at most %d", path, len(data), maxDefinition)
		}
	}
}

// definitions are the files of the repository that hold a CustomResourceDefinition, by path.
func definitions(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "bin", "dist", "node_modules":
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".yaml" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var head struct{ Kind string }
		// Templates of charts are no YAML, and no definitions either.
		if yaml.Unmarshal(data, &head) == nil && head.Kind == "CustomResourceDefinition" {
			found[path] = data
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Five kinds of the core and Redis, each at its source.
	if len(found) < 6 {
		t.Errorf("only %d definitions were found: the search is broken", len(found))
	}
	return found
}
