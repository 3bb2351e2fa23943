// SPDX-License-Identifier: Apache-2.0

//go:build processes && linux

package build

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEnsureBuildsOnce compiles the smallest component for real.
func TestEnsureBuildsOnce(t *testing.T) {
	root, cache := t.TempDir(), t.TempDir()
	sources := filepath.Join(root, "hack", "devcluster", "components")
	for _, c := range Components() {
		dir := filepath.Join(sources, c.Dir())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+c.Name+"\n\ngo 1.24\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := []byte("package main\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(sources, "pause", "main.go"), program, 0o644); err != nil {
		t.Fatal(err)
	}
	var said []string
	b := &Builder{Sources: sources, Cache: cache, Progress: func(format string, _ ...any) { said = append(said, format) }}
	if _, err := b.Folder(context.Background()); err == nil || !strings.Contains(err.Error(), "devcluster build") {
		t.Errorf("before a build: %v", err)
	}
	// All but the first program lack their packages, so the second fails.
	_, _, err := b.Ensure(context.Background())
	if err == nil || !strings.Contains(err.Error(), `cannot build "etcd"`) {
		t.Fatalf("got %v", err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "pause-*", "*"))
	if err != nil || len(built) != 1 || filepath.Base(built[0]) != "pause" {
		t.Fatalf("the cache holds %v, %v", built, err)
	}
	before, err := os.Stat(built[0])
	if err != nil {
		t.Fatal(err)
	}
	said = nil
	if _, _, err := b.Ensure(context.Background()); err == nil {
		t.Fatal("the second run built what cannot be built")
	}
	again := slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "built") })
	if after, err := os.Stat(built[0]); err != nil || !os.SameFile(before, after) || again {
		t.Errorf("what was there was built again: %v, %v", err, said)
	}
	if unfinished, _ := filepath.Glob(filepath.Join(cache, "*", ".building-*")); len(unfinished) > 0 {
		t.Errorf("unfinished builds are left: %v", unfinished)
	}
}
