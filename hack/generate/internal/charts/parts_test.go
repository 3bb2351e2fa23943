// SPDX-License-Identifier: Apache-2.0

//go:build charts

package charts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// packaged is a part of a plugin as zictl packages it.
func packaged(t *testing.T, name string, data map[string]string) string {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{"data": data})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: v1\n%simmutable: true\nkind: ConfigMap\nmetadata:\n  labels:\n    a: b\n  name: %s\n",
		text, name)
}

// The template of a chart makes of what once leaves of a part exactly what that was, whatever a version changes of an
// earlier one.
func TestEditedPartsAreWhole(t *testing.T) {
	long := strings.Repeat("ä line of the first version\n", 50)
	versions := []map[string]string{
		{"params.yaml": long, "more.yaml": "a: b\n", "empty.yaml": ""},
		{"params.yaml": long, "more.yaml": "a: b\n", "empty.yaml": ""},
		{"params.yaml": "first\n" + long, "more.yaml": "a: b\n"},
		{"params.yaml": long[:300] + "\n    between: ${x}\n\n" + long[300:] + "no end of line", "more.yaml": "a: c\n",
			"new.yaml": "{}\n"},
		{"params.yaml": long + "\n\n"},
		{"params.yaml": strings.Replace(long, "first", "second", 3), "more.yaml": "a: b\n"},
		{"params.yaml": "all is other\n"},
	}
	chart, folder := newTree(), t.TempDir()
	for n, data := range versions {
		chart[fmt.Sprintf("plugins/x-1.%d.0.yaml", n)] = []byte("# Generated\n---\n" +
			packaged(t, fmt.Sprintf("x-params-1.%d.0", n), data) + "---\n" +
			packaged(t, fmt.Sprintf("x-manifest-1.%d.0", n), map[string]string{"version": fmt.Sprint(n)}))
	}
	if err := chart.once(); err != nil {
		t.Fatal(err)
	}
	if kept := string(chart["plugins/x-1.5.0.yaml"]); !strings.Contains(kept, "\nfrom: x-params-1.") ||
		strings.Contains(kept, "ä line of the first version") {
		t.Errorf("of a version that changes three lines the chart has\n%s", kept)
	}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile(filepath.Join(root, "hack/generate/chart/templates/plugins.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	chart["templates/plugins.yaml"], chart["Chart.yaml"] = template, []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")
	for path, content := range chart {
		to := filepath.Join(folder, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	rendered := map[string]any{}
	for _, object := range render(t, folder)["ConfigMap"] {
		rendered[object["metadata"].(map[string]any)["name"].(string)] = object["data"]
	}
	for n, data := range versions {
		want := map[string]any{}
		for key, text := range data {
			want[key] = text
		}
		if got := rendered[fmt.Sprintf("x-params-1.%d.0", n)]; !reflect.DeepEqual(got, want) {
			t.Errorf("version %d is rendered as %q, and is %q", n, got, want)
		}
		got := rendered[fmt.Sprintf("x-manifest-1.%d.0", n)]
		if !reflect.DeepEqual(got, map[string]any{"version": fmt.Sprint(n)}) {
			t.Errorf("the manifest of version %d is rendered as %q", n, got)
		}
	}
}
