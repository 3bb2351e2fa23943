// SPDX-License-Identifier: Apache-2.0

//go:build processes

package gobuild

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// module writes a small program and returns its folder.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/prog\n\ngo 1.26\n",
		"info/info.go": "package info\n\nvar Version string\n\nvar Computed = string([]byte(\"x\"))\n\nconst (\n\tFixed = " +
			"\"1.2.3\"\n\tOther = \"1.2.4\"\n)\n",
		"cmd/main.go": "package main\n\nimport \"example.test/prog/info\"\n\nvar version = \"none\"\n\n" +
			"func main() { print(version, \" \", info.Version) }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func programIn(t *testing.T, dir, variable string) Program {
	return Program{
		Dir: dir, Package: "./cmd", VersionVariable: variable, Version: "1.2.3",
		Arch: runtime.GOARCH, Output: filepath.Join(t.TempDir(), "prog"),
	}
}

// TestBuildIsReproducible builds the same sources in two places.
func TestBuildIsReproducible(t *testing.T) {
	var sums []string
	for range 2 {
		p := programIn(t, module(t), "main.version")
		sum, err := Build(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
		out, err := exec.Command(p.Output).CombinedOutput()
		if err != nil || string(out) != "1.2.3 " {
			t.Errorf("the program printed %q, %v", out, err)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ: %v", sums)
	}
}

func TestBuildSetsVariableOfOtherPackage(t *testing.T) {
	p := programIn(t, module(t), "example.test/prog/info.Version")
	if _, err := Build(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(p.Output).CombinedOutput()
	if err != nil || string(out) != "none 1.2.3" {
		t.Errorf("the program printed %q, %v", out, err)
	}
}

// TestBuildTakesConstant that is the version: there is nothing to set.
func TestBuildTakesConstant(t *testing.T) {
	for _, version := range []string{"1.2.3", "v1.2.3"} {
		p := programIn(t, module(t), "example.test/prog/info.Fixed")
		p.Version = version
		if _, err := Build(t.Context(), p); err != nil {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	dir := module(t)
	for _, c := range []struct{ dir, variable, want string }{
		{dir, "main.Version", `has neither a string variable "Version"`},
		{dir, "example.test/prog/info.Computed", `has neither a string variable "Computed"`},
		{dir, "example.test/prog/info.Other", `has neither a string variable "Other"`},
		{dir, "example.test/prog/gone.Version", `"example.test/prog/gone"`},
		{t.TempDir(), "main.version", "not a Go module"},
	} {
		if _, err := Build(t.Context(), programIn(t, c.dir, c.variable)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("Build with %q = %v, want %q", c.variable, err, c.want)
		}
	}
}
