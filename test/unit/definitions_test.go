// SPDX-License-Identifier: Apache-2.0

// Package unit has the suite-wide checks that need nothing but the files of the repository.
package unit

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// revisions has a line for each definition: its file, its revision, and the digest of all else.
const revisions = "testdata/definitions.txt"

var revisionLine = regexp.MustCompile(`(?m)^    platform\.zeroinfra\.github\.com/crd-revision: "(\d+)"\n`)

// A definition that changes has a higher revision: a cluster that has one of the same revision keeps that, and the API
// server then drops what only the other one knows. Where two branches change a definition, each with the same new
// revision, their lines of the record are in conflict.
func TestADefinitionThatChangesHasAHigherRevision(t *testing.T) {
	files, err := filepath.Glob("../../*/config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no module has a definition: %v", err)
	}
	record := linesOf(t, revisions)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := revisionLine.FindSubmatch(data)
		if found == nil {
			t.Errorf("%s has no revision: run make generate", file)
			continue
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		same := name + " " + string(found[1]) + " "
		is := same + fmt.Sprintf("sha256:%x", sha256.Sum256(revisionLine.ReplaceAll(data, nil)))
		switch was := record[name]; {
		case was == is:
		case strings.HasPrefix(was, same):
			t.Errorf("%s is another definition than the one that had revision %s, and clusters with that one would keep it: "+
				"set its annotation crd-revision to the next number, run make generate, and correct its line in test/unit/%s",
				file, found[1], revisions)
		default:
			t.Errorf("the line of %s in test/unit/%s is %q: have it be %q", name, revisions, was, is)
		}
		delete(record, name)
	}
	for name := range record {
		t.Errorf("no module has the definition %s any more: take its line out of test/unit/%s", name, revisions)
	}
}
