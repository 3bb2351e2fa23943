// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlainLeavesOutWhatChartsFillIn(t *testing.T) {
	got, err := plain([]byte(`# a comment
kind: CustomResourceDefinition
metadata:
  name: issuers.example.com
  labels:
    app: '{{ template "x" . }}'
    kept: "yes"
    # Generated {{- include "labels" . }}
spec: {group: example.com}
`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"{{": false, "app": false, `kept: "yes"`: true, "group: example.com": true} {
		if strings.Contains(string(got), text) != want {
			t.Errorf("%q in the object is %v:\n%s", text, !want, got)
		}
	}
	for _, bad := range []string{"", "a: [", "kind: X\n"} {
		if _, err := plain([]byte(bad)); err == nil {
			t.Errorf("%q is taken for an object", bad)
		}
	}
}

func TestFingerprintLooksIntoFolders(t *testing.T) {
	dir := t.TempDir()
	sum := func() string {
		t.Helper()
		s, err := fingerprint(dir, Component{Name: "x"}, "go1")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(file string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte("package x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod")
	first := sum()
	for _, file := range []string{"x_test.go", "README.md", "internal/x/x_test.go"} {
		write(file)
		if sum() != first {
			t.Errorf("%s makes another program", file)
		}
	}
	write("internal/x/x.go")
	if sum() == first {
		t.Error("a source below changes nothing")
	}
}
