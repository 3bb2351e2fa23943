// SPDX-License-Identifier: Apache-2.0

package maven

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// client is a Maven client that notes each run and "resolves" the lines of file "remote", which are paths and
// contents, into the local repository: as the real one does, it leaves what is there.
const client = `#!/bin/sh
echo run >>"$REMOTE.runs"
for argument; do
  case $argument in
    -Dmaven.repo.local=*) repository=${argument#*=} ;;
    -Dmdep.outputFile=*) output=${argument#*=} ;;
    -Dbroken=*) echo "[ERROR] the artifact a:b:${argument#*=} was not found"; exit 1 ;;
  esac
done
while read -r path content; do
  mkdir -p "$repository/${path%/*}"
  [ -e "$repository/$path" ] || echo "$content" >"$repository/$path"
  echo "$repository/$path"
done <"$REMOTE" >"$output"
`

const one, two = "org/one/one/1/one-1.jar", "org/two/two/2/two-2-x.jar"

// remote puts the client first in the PATH, has it resolve these lines, and returns the file of them.
func remote(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "remote")
	write(t, filepath.Join(dir, "mvn"), client, 0o755)
	write(t, file, strings.Join(lines, "\n")+"\n", 0o644)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("REMOTE", file)
	return file
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cache string) *Repository {
	t.Helper()
	r, err := Open(cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func runs(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file + ".runs")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "run")
}

var project = Project{Pom: []byte("<project/>"), Properties: map[string]string{"kafka": "1"}}

func TestFetchGetsWhatIsListed(t *testing.T) {
	file := remote(t, two+" second", one+" first")
	r := open(t, t.TempDir())
	lock, err := r.Resolve(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	if len(lock.Artifacts) != 2 || lock.Artifacts[0].Coordinates != "org.one:one:1" ||
		lock.Artifacts[1].Coordinates != "org.two:two:2:x" {
		t.Fatalf("artifacts = %+v", lock.Artifacts)
	}
	fresh := t.TempDir()
	elsewhere := open(t, fresh)
	for range 2 {
		jars, err := elsewhere.Fetch(t.Context(), project, lock)
		if err != nil || len(jars) != 2 {
			t.Fatalf("fetched %+v, %v", jars, err)
		}
		if text, err := os.ReadFile(jars[0].Path); err != nil || string(text) != "first\n" {
			t.Errorf("%s holds %q, %v", jars[0].Path, text, err)
		}
	}
	if n := runs(t, file); n != 2 {
		t.Errorf("Maven ran %d times, want once for each repository", n)
	}
	left, err := filepath.Glob(filepath.Join(fresh, "maven", "project-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	write(t, filepath.Join(elsewhere.files(), one), "damaged\n", 0o644)
	if _, err := elsewhere.Fetch(t.Context(), project, lock); err != nil {
		t.Errorf("a damaged file is not fetched again: %v", err)
	}
	if n := runs(t, file); n != 3 {
		t.Errorf("Maven ran %d times, want once more", n)
	}
}

func TestFetchRefusesWhatIsNotListed(t *testing.T) {
	file := remote(t, one+" first")
	lock, err := open(t, t.TempDir()).Resolve(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[string]string{
		one + " first\n" + two + " second\n": "org.two:two:2:x is resolved and not listed",
		one + " forged\n":                    "org.one:one:1 has sha256 ",
		two + " second\n":                    "org.one:one:1 is listed and not resolved",
	} {
		write(t, file, lines, 0o644)
		_, err := open(t, t.TempDir()).Fetch(t.Context(), project, lock)
		if !errors.Is(err, ErrLock) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: error %v, want %q", lines, err, want)
		}
	}
	before := runs(t, file)
	for _, other := range []Project{
		{Pom: []byte("<project />"), Properties: project.Properties},
		{Pom: project.Pom, Properties: map[string]string{"kafka": "2"}},
	} {
		if _, err := open(t, t.TempDir()).Fetch(t.Context(), other, lock); !errors.Is(err, ErrLock) {
			t.Errorf("a list of another project: %v", err)
		}
	}
	if n := runs(t, file); n != before {
		t.Errorf("Maven ran %d times for a list of another project", n-before)
	}
}

func TestFetchSaysWhatFailed(t *testing.T) {
	remote(t, one+" first")
	broken := Project{Properties: map[string]string{"broken": "7"}}
	_, err := open(t, t.TempDir()).Resolve(t.Context(), broken)
	if err == nil || !strings.Contains(err.Error(), "the artifact a:b:7 was not found") {
		t.Errorf("what Maven prints is not in the error: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = open(t, t.TempDir()).Resolve(t.Context(), project)
	if err == nil || !strings.Contains(err.Error(), "install Debian's package maven") {
		t.Errorf("without Maven: %v", err)
	}
}
