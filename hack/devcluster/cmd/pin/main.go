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
	for _, c := range slices.Concat(build.Components(), build.Servers(), build.Optional()) {
		if len(os.Args) > 1 && !slices.Contains(os.Args[1:], c.Name) {
			continue
		}
		if len(c.Binaries) == 1 && c.Binaries[0].Package == "." {
			continue // our own source, nothing to pin
		}
		if err := pin(c); err != nil {
			log.Fatalf("cannot pin component %q: %v", c.Name, err)
		}
		log.Printf("pinned %s %s", c.Name, c.Version)
	}
}

// pin writes the module files of one component.
func pin(c build.Component) error {
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
	ours, err := derive(c, upstreams)
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

// derive makes a go.mod that builds the upstream programs from outside: all
// upstream requirements as they are, and replacements by folders turned into
// the published versions of the same modules. Where several upstreams require
// one module Go takes the newest; where they replace one they must agree.
func derive(c build.Component, upstreams []*modfile.File) ([]byte, error) {
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
	staging := c.Staging
	if staging == "" {
		staging = c.Version
	}
	f.SetRequireSeparateIndirect(requirements(c, upstreams))
	replaced := map[string]string{}
	for i, upstream := range upstreams {
		for _, r := range upstream.Replace {
			if slices.Contains(c.Skip, r.Old.Path) {
				continue
			}
			path, version := r.New.Path, r.New.Version
			if strings.HasPrefix(path, ".") {
				if i > 0 {
					continue // what is required is published
				}
				path, version = r.Old.Path, staging
			}
			if old, ok := replaced[r.Old.Path]; ok && old != path+" "+version {
				return nil, fmt.Errorf("%s is replaced by %s and by %s %s: choose versions that agree", r.Old.Path, old, path, version)
			}
			replaced[r.Old.Path] = path + " " + version
			if err := f.AddReplace(r.Old.Path, r.Old.Version, path, version); err != nil {
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
	add := func(r *modfile.Require) {
		old, ok := newest[r.Mod.Path]
		if !ok {
			paths = append(paths, r.Mod.Path)
		}
		if !ok || semver.Compare(old.Mod.Version, r.Mod.Version) < 0 {
			newest[r.Mod.Path] = r
		}
	}
	for _, u := range c.Upstreams() {
		r := &modfile.Require{}
		r.Mod.Path, r.Mod.Version = u.Module, u.Version
		add(r)
	}
	for _, upstream := range upstreams {
		for _, r := range upstream.Require {
			if !slices.Contains(c.Skip, r.Mod.Path) {
				add(r)
			}
		}
	}
	requires := make([]*modfile.Require, len(paths))
	for i, path := range paths {
		requires[i] = newest[path]
	}
	return requires
}
