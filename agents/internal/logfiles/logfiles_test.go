// SPDX-License-Identifier: Apache-2.0

package logfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// content of the files of a folder, by name: how many of which byte.
func content(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s=%d×%.1s", entry.Name(), len(data), data))
	}
	return strings.Join(all, " ")
}

func put(t *testing.T, dir, name, letter string, count int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(letter, count)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Two files with shares of 10 bytes in 5 generations each.
func TestBound(t *testing.T) {
	logs := &plan.Logs{Dir: t.TempDir(), Files: []string{"a", "b"}, MaxBytes: 100}
	bound := func(want bool) {
		t.Helper()
		if renamed, err := Bound(logs); err != nil || renamed != want {
			t.Fatalf("got %v, %v; want %v", renamed, err, want)
		}
	}
	bound(false)
	put(t, logs.Dir, "a", "0", 10)
	put(t, logs.Dir, "other", "x", 99)
	bound(false)
	put(t, logs.Dir, "a", "0", 11)
	put(t, logs.Dir, "b", "z", 3)
	bound(true)
	bound(false)
	if got := content(t, logs.Dir); got != "a.1=11×0 b=3×z other=99×x" {
		t.Errorf("got %s", got)
	}
	for _, letter := range []string{"1", "2", "3", "4", "5"} {
		put(t, logs.Dir, "a", letter, 12)
		bound(true)
	}
	if got := content(t, logs.Dir); got != "a.1=12×5 a.2=12×4 a.3=12×3 a.4=12×2 b=3×z other=99×x" {
		t.Errorf("got %s", got)
	}
}

// A gap that a crash left is closed, and what is no file is left alone.
func TestBoundAfterACrash(t *testing.T) {
	logs := &plan.Logs{Dir: t.TempDir(), Files: []string{"a"}, MaxBytes: 50}
	put(t, logs.Dir, "a", "n", 11)
	put(t, logs.Dir, "a.2", "o", 11)
	if renamed, err := Bound(logs); err != nil || !renamed {
		t.Fatalf("got %v, %v", renamed, err)
	}
	if got := content(t, logs.Dir); got != "a.1=11×n a.3=11×o" {
		t.Errorf("got %s", got)
	}
	if err := os.Symlink("/dev/stdout", filepath.Join(logs.Dir, "a")); err != nil {
		t.Fatal(err)
	}
	if renamed, err := Bound(logs); err != nil || renamed {
		t.Errorf("a link: got %v, %v", renamed, err)
	}
}

// A process that does not open its files anew goes on in the renamed one: that is bounded too.
func TestBoundOfAProcessThatDoesNotListen(t *testing.T) {
	logs := &plan.Logs{Dir: t.TempDir(), Files: []string{"a"}, MaxBytes: 50}
	put(t, logs.Dir, "a.1", "n", 20)
	if renamed, err := Bound(logs); err != nil || renamed {
		t.Fatalf("got %v, %v", renamed, err)
	}
	put(t, logs.Dir, "a.1", "n", 21)
	if renamed, err := Bound(logs); err == nil || !strings.Contains(err.Error(), "was emptied at 21 bytes") || renamed {
		t.Fatalf("got %v, %v", renamed, err)
	}
	if got := content(t, logs.Dir); got != "a.1=0×" {
		t.Errorf("got %s", got)
	}
}

func TestBoundSaysWhatItCannot(t *testing.T) {
	logs := &plan.Logs{Dir: t.TempDir(), Files: []string{"a", "b"}, MaxBytes: 100}
	put(t, logs.Dir, "a", "n", 11)
	put(t, logs.Dir, "b", "n", 11)
	// A folder with something in it cannot be overwritten.
	for _, number := range []string{"1", "2", "3", "4"} {
		if err := os.MkdirAll(filepath.Join(logs.Dir, "a."+number, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	renamed, err := Bound(logs)
	if err == nil || !strings.Contains(err.Error(), `"`+logs.Dir+`/a"`) || !renamed {
		t.Errorf("got %v, %v", renamed, err)
	}
	if _, err := os.Stat(filepath.Join(logs.Dir, "b.1")); err != nil {
		t.Error("the other file was not renamed")
	}
}
