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
)

func main() {
	log.SetFlags(0)
	for _, c := range build.Components() {
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
	dir := filepath.Join("components", c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	upstream, err := upstreamModFile(c)
	if err != nil {
		return err
	}
	ours, err := derive(c, upstream)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), ours, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), nil, 0o644); err != nil {
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

// upstreamModFile downloads the component's module and reads its go.mod.
func upstreamModFile(c build.Component) (*modfile.File, error) {
	cmd := exec.Command("go", "mod", "download", "-json", c.Module+"@"+c.Version)
	cmd.Dir = os.TempDir()
	cmd.Env = build.Environ()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot download %s@%s: %w", c.Module, c.Version, err)
	}
	var info struct{ GoMod string }
	if err := json.Unmarshal(out, &info); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(info.GoMod)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(info.GoMod, data, nil)
}

// derive makes a go.mod that builds the upstream programs from outside: all
// upstream requirements as they are, and replacements by folders turned into
// the published versions of the same modules.
func derive(c build.Component, upstream *modfile.File) ([]byte, error) {
	f := new(modfile.File)
	if err := f.AddModuleStmt("github.com/zeroinfra/hack/devcluster/components/" + c.Name); err != nil {
		return nil, err
	}
	if err := f.AddGoStmt(upstream.Go.Version); err != nil {
		return nil, err
	}
	for _, g := range upstream.Godebug {
		if err := f.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	staging := c.Staging
	if staging == "" {
		staging = c.Version
	}
	var requires []*modfile.Require
	main := &modfile.Require{}
	main.Mod.Path, main.Mod.Version = c.Module, c.Version
	requires = append(requires, main)
	for _, r := range upstream.Require {
		if !slices.Contains(c.Skip, r.Mod.Path) {
			requires = append(requires, r)
		}
	}
	f.SetRequireSeparateIndirect(requires)
	for _, r := range upstream.Replace {
		if slices.Contains(c.Skip, r.Old.Path) {
			continue
		}
		path, version := r.New.Path, r.New.Version
		if strings.HasPrefix(path, ".") {
			path, version = r.Old.Path, staging
		}
		if err := f.AddReplace(r.Old.Path, r.Old.Version, path, version); err != nil {
			return nil, err
		}
	}
	f.Cleanup()
	head := fmt.Sprintf("// Written by cmd/pin for %s %s.\n\n", c.Module, c.Version)
	return append([]byte(head), modfile.Format(f.Syntax)...), nil
}
