// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const definition = `metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.19.0
  name: things.example.com
spec:
  group: example.com
`

func TestRevision(t *testing.T) {
	dir := t.TempDir()
	fresh, target := filepath.Join(dir, "fresh.yaml"), filepath.Join(dir, "target.yaml")
	write := func(content string) string {
		t.Helper()
		if err := os.WriteFile(fresh, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeDefinition(fresh, target); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	for _, step := range []struct{ content, revision string }{
		{definition, "1"},
		{definition, "1"},
		{definition + "  scope: Namespaced\n", "2"},
		{definition + "  scope: Namespaced\n", "2"},
		{definition, "3"},
	} {
		got := write(step.content)
		want := strings.Replace(step.content, "v0.19.0\n", "v0.19.0\n    "+annotation+`: "`+step.revision+"\"\n", 1)
		if got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestWithoutAnnotation(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "fresh.yaml")
	if err := os.WriteFile(fresh, []byte("metadata: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeDefinition(fresh, fresh+".out"); err == nil {
		t.Error("a definition without a revision was written")
	}
}
