// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cli

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// buildable is a repository whose programs are built with the cache that Go has by itself: Go would keep its own one
// below XDG_CACHE_HOME, and build its library anew.
func buildable(t *testing.T) string {
	t.Helper()
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	return repository(t)
}

// TestBuildPush goes through the commands from inside a folder of the repository.
func TestBuildPush(t *testing.T) {
	repo := buildable(t)
	line := regexp.MustCompile(`^zeroinfra/tool:3\.2\.1  (sha256:[0-9a-f]{64})  \d+\.\d MiB  (.*)\n$`)
	first := line.FindStringSubmatch(mustRun(t, "build", "--all"))
	second := line.FindStringSubmatch(mustRun(t, "build", "tool:3.2.1"))
	if first == nil || second == nil || first[1] != second[1] || !strings.HasPrefix(first[2], "built in") ||
		second[2] != "up to date" {
		t.Fatalf("build printed %q, then %q", first, second)
	}
	if _, err := os.Stat(filepath.Join(repo, "dist/images/tool-3.2.1.tar")); err != nil {
		t.Error(err)
	}
	if out := mustRun(t, "packages", "tool"); out != "# zeroinfra/tool:3.2.1\n" {
		t.Errorf("packages printed %q", out)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	out := mustRun(t, "push", "tool", "--registry", host+"/prefix", "--insecure")
	if want := host + "/prefix/zeroinfra/tool:3.2.1  " + first[1] + "  pushed\n"; out != want {
		t.Errorf("push printed %q, want %q", out, want)
	}
}

func TestVersionAndOutFlags(t *testing.T) {
	buildable(t)
	out := t.TempDir()
	got := mustRun(t, "build", "tool", "--version", "9.9.9", "--out", out)
	if !strings.HasPrefix(got, "zeroinfra/tool:9.9.9 ") {
		t.Errorf("build printed %q", got)
	}
	if _, err := os.Stat(filepath.Join(out, "tool-9.9.9.tar")); err != nil {
		t.Error(err)
	}
}
