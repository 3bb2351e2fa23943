// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the tests got into the golden files")

// Golden runs a pure function over each <dir>/*.in.yaml, read strictly, and
// compares its result, as YAML, with the .out.yaml beside it. An error is compared
// as well, as "error: <text>". "go test -update" writes the files anew; look at
// the difference before committing it.
func Golden[T any](t *testing.T, dir string, run func(in T) (any, error)) {
	t.Helper()
	inputs, err := filepath.Glob(filepath.Join(dir, "*.in.yaml"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no *.in.yaml in %q (%v)", dir, err)
	}
	checkOrphans(t, dir)
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			var in T
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(data, &in); err != nil {
				t.Fatalf("cannot read %q: %v", input, err)
			}
			compare(t, filepath.Join(dir, name+".out.yaml"), render(t, in, run))
		})
	}
}

func render[T any](t *testing.T, in T, run func(in T) (any, error)) []byte {
	t.Helper()
	out, err := run(in)
	if err != nil {
		out = map[string]string{"error": err.Error()}
	}
	got, err := yaml.Marshal(out)
	if err != nil {
		t.Fatalf("cannot write the result as YAML: %v", err)
	}
	return got
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%q is missing: run the test with -update and look at what it writes", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%q differs (run with -update to accept):\n%s", path, difference(string(want), string(got)))
	}
}

// checkOrphans fails for a result whose input is gone: nothing tests it any more.
func checkOrphans(t *testing.T, dir string) {
	t.Helper()
	outputs, err := filepath.Glob(filepath.Join(dir, "*.out.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range outputs {
		if _, err := os.Stat(strings.TrimSuffix(output, ".out.yaml") + ".in.yaml"); err != nil {
			t.Errorf("%q has no input: remove it", output)
		}
	}
}

// difference shows the lines from the first to the last that differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	start := 0
	for start < len(w) && start < len(g) && w[start] == g[start] {
		start++
	}
	endW, endG := len(w), len(g)
	for endW > start && endG > start && w[endW-1] == g[endG-1] {
		endW, endG = endW-1, endG-1
	}
	var text strings.Builder
	for _, line := range w[start:endW] {
		text.WriteString("- " + line + "\n")
	}
	for _, line := range g[start:endG] {
		text.WriteString("+ " + line + "\n")
	}
	return text.String()
}
