// SPDX-License-Identifier: Apache-2.0

package datalock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroinfra/agents/internal/datalock"
)

func take(t *testing.T, l *datalock.Lock, dir string) {
	t.Helper()
	if err := l.Take(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
}

func wantHeld(t *testing.T, dir string) {
	t.Helper()
	var other datalock.Lock
	if err := other.Take(dir); !errors.Is(err, datalock.ErrHeld) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	if other.File() != nil {
		t.Error("the lock that was not taken has a file")
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	var first, second datalock.Lock
	take(t, &first, dir)
	take(t, &first, dir)
	wantHeld(t, dir)
	first.Release()
	take(t, &second, dir)
	wantHeld(t, dir)
}

func TestAnotherFolderGivesTheFirstBack(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	var first, second datalock.Lock
	take(t, &second, two)
	take(t, &first, one)
	if err := first.Take(two); !errors.Is(err, datalock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	wantHeld(t, one)
	second.Release()
	take(t, &first, two)
	wantHeld(t, two)
	take(t, &second, one)
}

func TestRemovedFileGuardsNothingAndIsTakenAnew(t *testing.T) {
	dir := t.TempDir()
	var first datalock.Lock
	take(t, &first, dir)
	if err := os.Remove(filepath.Join(dir, datalock.Name)); err != nil {
		t.Fatal(err)
	}
	take(t, &first, dir)
	wantHeld(t, dir)
}

// TestOneAtATimeAlsoWhileTheFileIsRemoved has many take the lock, and each removes the file before it gives the lock
// back.
func TestOneAtATimeAlsoWhileTheFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	var inside, taken atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for taken.Load() < 300 && !t.Failed() {
				var l datalock.Lock
				if l.Take(dir) != nil {
					continue
				}
				taken.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				runtime.Gosched()
				inside.Add(-1)
				if err := os.Remove(filepath.Join(dir, datalock.Name)); err != nil {
					t.Error(err)
				}
				l.Release()
			}
		})
	}
	group.Wait()
}

func TestProcessThatInheritsTheFileHoldsTheLock(t *testing.T) {
	dir := t.TempDir()
	var first datalock.Lock
	take(t, &first, dir)
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = []*os.File{first.File()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first.Release()
	wantHeld(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	take(t, &first, dir)
}

func TestFoldersThatNeedNoLock(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "missing"), "/proc"} {
		var l datalock.Lock
		if err := l.Take(dir); err != nil || l.File() != nil {
			t.Errorf("%q: got %v, %v", dir, l.File(), err)
		}
	}
}

func TestFileThatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, datalock.Name)); err != nil {
		t.Fatal(err)
	}
	var l datalock.Lock
	if err := l.Take(dir); err == nil || errors.Is(err, datalock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "elsewhere")); err == nil {
		t.Error("the link was followed")
	}
}
