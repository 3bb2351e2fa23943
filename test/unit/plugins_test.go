// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// pinned has a line for each version of a plugin that a chart has: its name and version, and the digest of its
// ConfigMaps.
const pinned = "testdata/plugins.txt"

// A version of a plugin that was released is never another thing under its name: instances are pinned to what it was,
// its ConfigMaps cannot be changed, and helm refuses a chart with others of the same names. So what each of them was is
// on record.
func TestVersionsOfPluginsStayAsTheyAre(t *testing.T) {
	files, err := filepath.Glob("../../*-operator/config/plugins/*-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no chart has a plugin: %v", err)
	}
	record := linesOf(t, pinned)
	for _, file := range files {
		version := strings.TrimSuffix(filepath.Base(file), ".yaml")
		is := version + " " + digestOfPlugin(t, file)
		was, found := record[version]
		switch {
		case !found:
			t.Errorf("%s has no line in test/unit/%s: add %q", version, pinned, is)
		case was != is:
			t.Errorf("%s was changed in place: a version that was released stays as it is, with its comments and with those "+
				"that it extends. Undo that, "+
				"and make a new version beside it, which \"extends\" it and says what differs. Only a version that no release "+
				"has had yet gets "+
				"another line in test/unit/%s, %q", version, pinned, is)
		}
		delete(record, version)
	}
	for version := range record {
		t.Errorf("no chart has %s any more, and instances may have been made from it: put it back", version)
	}
}

// linesOf are the lines of a record, by their first word.
func linesOf(t *testing.T, record string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		if _, twice := found[name]; twice {
			t.Fatalf("%s has two lines for %s", record, name)
		}
		found[name] = line
	}
	return found
}

// digestOfPlugin is that of what cannot change: the names and the data of the ConfigMaps of a version as it is
// packaged. What a chart renders of them is all of that (hack/generate).
func digestOfPlugin(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]map[string]string{}
	for _, document := range separator.Split(string(data), -1) {
		var part corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &part); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if part.Name != "" {
			parts[part.Name] = part.Data
		}
	}
	if len(parts) != 5 {
		t.Fatalf("%s has %d ConfigMaps with a name, want the five parts of a plugin", file, len(parts))
	}
	// Maps are written in the order of their keys.
	whole, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(whole))
}
