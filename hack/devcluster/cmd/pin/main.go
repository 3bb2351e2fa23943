// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command pin writes components/<name>/go.mod and go.sum for the versions
// named in package build. Run it in hack/devcluster after changing a version:
//
//	go run ./cmd/pin [NAME…]
//
// The result is committed; building a cluster never changes it.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/devcluster/internal/build"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

func main() {
	log.SetFlags(0)
	family, err := familyVersions()
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range slices.Concat(build.Components(), build.Servers(), build.Optional()) {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], c.Name) {
			continue
		}
		if c.Own() {
			continue
		}
		if err := pin(c, family); err != nil {
			log.Fatalf("cannot pin component %q: %v", c.Name, err)
		}
		log.Printf("pinned %s %s", c.Name, c.Version)
	}
}

// pin writes the module files of one component. A component of Kubernetes'
// family gets the versions that the family agrees on.
func pin(c build.Component, family map[string]string) error {
	if !slices.ContainsFunc(build.Family(), func(f build.Component) bool { return f.Name == c.Name }) {
		family = nil
	}
	dir := filepath.Join("components", c.Dir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var upstreams []*modfile.File
	var sums []byte
	for _, u := range c.Upstreams() {
		f, dir, err := upstream(u)
		if err != nil {
			return err
		}
		upstreams = append(upstreams, f)
		known, err := vouched(c, dir)
		if err != nil {
			return err
		}
		sums = append(sums, known...)
	}
	ours, err := derive(c, upstreams, family)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), ours, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
		return err
	}
	args := []string{"list", "-mod=mod", "-deps", "-f", "{{with .Error}}{{.}}{{end}}"}
	for _, b := range c.Binaries {
		args = append(args, b.Package)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = build.Environ()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot resolve packages: %w\n%s", err, out.String())
	}
	return nil
}

// upstream downloads a module, reads its go.mod and returns its folder.
func upstream(u build.Upstream) (*modfile.File, string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", u.Module+"@"+u.Version)
	cmd.Dir = os.TempDir()
	cmd.Env = build.Environ()
	out, err := cmd.Output()
	if err != nil {
		return nil, "", fmt.Errorf("cannot download %s@%s: %w", u.Module, u.Version, err)
	}
	var info struct{ GoMod, Dir string }
	if err := json.Unmarshal(out, &info); err != nil {
		return nil, "", err
	}
	data, err := os.ReadFile(info.GoMod)
	if err != nil {
		return nil, "", err
	}
	f, err := modfile.Parse(info.GoMod, data, nil)
	return f, info.Dir, err
}

// vouched returns the lines of an upstream's go.sum that speak for modules
// which the checksum database does not know.
func vouched(c build.Component, dir string) ([]byte, error) {
	if len(c.Vouched) == 0 {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return nil, err
	}
	var lines []byte
	for line := range bytes.Lines(data) {
		module, _, _ := strings.Cut(string(line), " ")
		if slices.Contains(c.Vouched, module) {
			lines = append(lines, line...)
		}
	}
	return lines, nil
}

// familyVersions are the newest versions that any component of Kubernetes' family requires, by module.
func familyVersions() (map[string]string, error) {
	versions := map[string]string{}
	for _, c := range build.Family() {
		var upstreams []*modfile.File
		for _, u := range c.Upstreams() {
			f, _, err := upstream(u)
			if err != nil {
				return nil, err
			}
			upstreams = append(upstreams, f)
		}
		for _, r := range requirements(c, upstreams) {
			if semver.Compare(versions[r.Mod.Path], r.Mod.Version) < 0 {
				versions[r.Mod.Path] = r.Mod.Version
			}
		}
	}
	return versions, nil
}

// derive makes a go.mod that builds the upstream programs from outside: all
// upstream requirements, those of modules that upstream keeps in its own
// repository in their published versions, and upstream's replacements. Where
// several upstreams require one module Go takes the newest; where they replace
// one they must agree. The family's versions take the place of older ones and
// of replacements.
func derive(c build.Component, upstreams []*modfile.File, family map[string]string) ([]byte, error) {
	f := new(modfile.File)
	if err := f.AddModuleStmt("github.com/zeroinfra/hack/devcluster/components/" + c.Name); err != nil {
		return nil, err
	}
	if err := f.AddGoStmt(upstreams[0].Go.Version); err != nil {
		return nil, err
	}
	for _, g := range upstreams[0].Godebug {
		if err := f.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	requires := requirements(c, upstreams)
	for _, r := range requires {
		if version := family[r.Mod.Path]; semver.Compare(r.Mod.Version, version) < 0 {
			r.Mod.Version = version
		}
	}
	f.SetRequireSeparateIndirect(requires)
	replaced := map[string]string{}
	for _, upstream := range upstreams {
		for _, r := range upstream.Replace {
			if family[r.Old.Path] != "" || slices.Contains(c.Skip, r.Old.Path) || strings.HasPrefix(r.New.Path, ".") {
				continue
			}
			version := r.New.Path + " " + r.New.Version
			if old, ok := replaced[r.Old.Path]; ok && old != version {
				return nil, fmt.Errorf("%s is replaced by %s and by %s: choose versions that agree", r.Old.Path, old, version)
			}
			replaced[r.Old.Path] = version
			if err := f.AddReplace(r.Old.Path, r.Old.Version, r.New.Path, r.New.Version); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	head := fmt.Sprintf("// Written by cmd/pin for %s %s.\n\n", c.Module, c.Version)
	return append([]byte(head), modfile.Format(f.Syntax)...), nil
}

// requirements are the upstream modules and all that they require, each once.
func requirements(c build.Component, upstreams []*modfile.File) []*modfile.Require {
	newest := map[string]*modfile.Require{}
	var paths []string
	add := func(r modfile.Require) {
		old, ok := newest[r.Mod.Path]
		if !ok {
			paths = append(paths, r.Mod.Path)
		}
		if !ok || semver.Compare(old.Mod.Version, r.Mod.Version) < 0 {
			newest[r.Mod.Path] = &r
		}
	}
	for _, u := range c.Upstreams() {
		r := modfile.Require{}
		r.Mod.Path, r.Mod.Version = u.Module, u.Version
		add(r)
	}
	for i, upstream := range upstreams {
		for _, r := range upstream.Require {
			require := modfile.Require{Mod: r.Mod, Indirect: r.Indirect}
			if i == 0 && inRepository(upstream, r.Mod.Path) {
				require.Mod.Version = cmp.Or(c.Staging, c.Version)
			}
			if !slices.Contains(c.Skip, r.Mod.Path) {
				add(require)
			}
		}
	}
	requires := make([]*modfile.Require, len(paths))
	for i, path := range paths {
		requires[i] = newest[path]
	}
	return requires
}

// inRepository tells whether upstream replaces a module by a folder of its own repository.
func inRepository(upstream *modfile.File, path string) bool {
	return slices.ContainsFunc(upstream.Replace, func(r *modfile.Replace) bool {
		return r.Old.Path == path && strings.HasPrefix(r.New.Path, ".")
	})
}
