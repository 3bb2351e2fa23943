// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestComponentsArePinned(t *testing.T) {
	for _, c := range slices.Concat(Components(), Servers(), Optional()) {
		data, err := os.ReadFile(filepath.Join("..", "..", "components", c.Dir(), "go.mod"))
		if err != nil {
			t.Error(err)
			continue
		}
		own := strings.Contains(string(data), "module "+c.Module+"\n")
		for _, u := range c.Upstreams() {
			if !own && !strings.Contains(string(data), u.Module+" "+u.Version+"\n") {
				t.Errorf("components/%s/go.mod is not pinned to %s %s: run \"go run ./cmd/pin\"", c.Name, u.Module, u.Version)
			}
		}
	}
}

func TestAFolderHoldsEachProgramOnce(t *testing.T) {
	for _, server := range []APIServer{OwnServer, OldestServer, NewestServer} {
		components, err := componentsFor(server)
		if err != nil {
			t.Fatal(err)
		}
		if server == OwnServer {
			components = append(components, Optional()...)
		}
		var programs []string
		for _, c := range components {
			for _, b := range c.Binaries {
				if slices.Contains(programs, b.Name) {
					t.Errorf("two components make %q", b.Name)
				}
				programs = append(programs, b.Name)
			}
		}
		for _, needed := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
			if !slices.Contains(programs, needed) {
				t.Errorf("the folder of API server %q has no %s: %v", server, needed, programs)
			}
		}
	}
	if _, err := componentsFor("ancient"); err == nil || !strings.Contains(err.Error(), `"oldest"`) {
		t.Errorf("an unknown API server: %v", err)
	}
}

func TestFingerprintFollowsInputs(t *testing.T) {
	dir := t.TempDir()
	c := Component{Name: "x", Binaries: []Binary{{"x", "."}}}
	write := func(file, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(c Component, toolchain string) string {
		t.Helper()
		s, err := fingerprint(dir, c, toolchain)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write("go.mod", "module x\n")
	first := sum(c, "go1")
	if sum(c, "go1") != first {
		t.Fatal("the same inputs give another fingerprint")
	}
	seen := map[string]string{first: "the beginning"}
	differs := func(what, s string) {
		t.Helper()
		if other, ok := seen[s]; ok {
			t.Errorf("%s gives the fingerprint of %s", what, other)
		}
		seen[s] = what
	}
	differs("another Go", sum(c, "go2"))
	other := c
	other.Variables = []string{"main.v=1"}
	differs("another variable", sum(other, "go1"))
	write("go.sum", "s")
	differs("a new file", sum(c, "go1"))
	write("go.mod", "module y\n")
	differs("another module", sum(c, "go1"))
}
