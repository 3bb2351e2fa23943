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
		if own := strings.Contains(string(data), "module "+c.Module+"\n"); own != c.Own() {
			t.Errorf("component %q is this project's: %v, want %v", c.Name, own, c.Own())
		}
		for _, u := range c.Upstreams() {
			if !c.Own() && !strings.Contains(string(data), u.Module+" "+u.Version+"\n") {
				t.Errorf("components/%s/go.mod is not pinned to %s %s: run \"go run ./cmd/pin\"", c.Name, u.Module, u.Version)
			}
		}
	}
}

// TestFamilySharesVersions checks that what components of Kubernetes' family share is compiled once: Go keeps compiled
// packages by the versions of their modules.
func TestFamilySharesVersions(t *testing.T) {
	versions := map[string]string{}
	for i, c := range Family() {
		data, err := os.ReadFile(filepath.Join("..", "..", "components", c.Dir(), "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || !strings.Contains(fields[0], "/") {
				continue
			}
			module, version := fields[0], fields[1]
			if i == 0 {
				versions[module] = version
			} else if want := versions[module]; want != "" && want != version {
				t.Errorf("%s requires %s %s, Kubernetes %s: run \"go run ./cmd/pin\"", c.Name, module, version, want)
			}
		}
	}
}

func TestExecutablesAreNamedAfterPackages(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet":    "kubelet",
		"go.etcd.io/etcd/server/v3":        "server",
		"example.com/provisioner/v5/cmd/x": "x",
	} {
		if got := executable(pkg); got != want {
			t.Errorf("the program of %s is %q, want %q", pkg, got, want)
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
			for _, name := range c.Files() {
				if slices.Contains(programs, name) {
					t.Errorf("two components make %q", name)
				}
				programs = append(programs, name)
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
