// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository writes a repository with one module and one image, and makes it and
// an empty cache those of the test.
func repository(t *testing.T) string {
	t.Helper()
	repo := t.TempDir()
	for name, text := range map[string]string{
		"VERSION":                     "3.2.1\n",
		"tool/go.mod":                 "module example.test/tool\n\ngo 1.26\n",
		"tool/cmd/main.go":            "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		"hack/images/base.yaml":       "debian: {packages: [base-files]}\n",
		"hack/images/tool/image.yaml": "about: A tool\nbinaries: [{module: tool, package: ./cmd, path: /tool}]\n",
	} {
		file := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(repo, "tool/cmd"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("SOURCE_DATE_EPOCH", "")
	return repo
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("images %q: %v", args, err)
	}
	return out
}

func TestList(t *testing.T) {
	repo := repository(t)
	if out := mustRun(t, "list"); !strings.Contains(out, "zeroinfra/tool:3.2.1") || !strings.Contains(out, "tool/cmd") {
		t.Errorf("list printed %q", out)
	}
	if err := os.Remove(filepath.Join(repo, "VERSION")); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, "list"); !strings.Contains(got, "zeroinfra/tool:dev") {
		t.Errorf("without a file VERSION list printed %q", got)
	}
}

// TestLock writes the list of an image's artifacts, as a Maven client resolves them that fetches one.
func TestLock(t *testing.T) {
	repo := repository(t)
	bin := t.TempDir()
	for file, text := range map[string]string{
		filepath.Join(repo, "hack/images/tool/image.yaml"): "variants: [{tag: \"1\", properties: {v: \"2\"}}]\n" +
			"debian: {suite: sid, packages: [java]}\nmaven: {pom: p.xml, directory: /libs}\n",
		filepath.Join(repo, "hack/images/tool/p.xml"): "<project/>",
		filepath.Join(bin, "mvn"): `#!/bin/sh
for argument; do
  case $argument in
    -Dmaven.repo.local=*) repository=${argument#*=} ;;
    -Dmdep.outputFile=*) output=${argument#*=} ;;
    -Dv=*) jar=a/b/${argument#*=}/b-${argument#*=}.jar ;;
  esac
done
mkdir -p "$repository/${jar%/*}" && : >"$repository/$jar" && echo "$repository/$jar" >"$output"
`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if out := mustRun(t, "lock", "tool"); out != "hack/images/tool/tool-1.lock\n" {
		t.Errorf("lock printed %q", out)
	}
	text, err := os.ReadFile(filepath.Join(repo, "hack/images/tool/tool-1.lock"))
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if err != nil || !strings.HasSuffix(string(text), "\na:b:2 sha256:"+empty+"\n") {
		t.Errorf("the list is %q, %v", text, err)
	}
	if out := mustRun(t, "list"); !strings.Contains(out, "Debian sid, Maven") {
		t.Errorf("list printed %q", out)
	}
}

func TestRefusals(t *testing.T) {
	repository(t)
	for want, args := range map[string][]string{
		`no image is called "redis"`:      {"build", "redis"},
		`no image is called "tool:1"`:     {"build", "tool:1"},
		"either names of images or --all": {"build"},
		"names of images or --all":        {"build", "tool", "--all"},
		"has no maven part":               {"lock", "tool"},
		`"registry" not set`:              {"push", "tool"},
		`run "images build tool" first`:   {"push", "tool", "--registry", "127.0.0.1:1"},
		`"a b" cannot be the tag`:         {"list", "--version", "a b"},
		"cannot read image definition":    {"list", "--repo", t.TempDir()},
	} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("images %q: error %v, want %q", args, err, want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := run(t, "list"); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("a bad SOURCE_DATE_EPOCH: %v", err)
	}
	t.Chdir(t.TempDir())
	if _, err := run(t, "list"); err == nil || !strings.Contains(err.Error(), "--repo") {
		t.Errorf("outside of a repository: %v", err)
	}
}
