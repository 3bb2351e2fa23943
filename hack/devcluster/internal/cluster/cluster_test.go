// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNamesAreChecked(t *testing.T) {
	for _, good := range []string{"zi", "a", "a-1", "abcdefghij0123456789"} {
		if _, err := New("/base", good); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{"", "A", "1a", "a-", "-a", "a_b", "a/b", "..", "abcdefghij01234567890"} {
		if _, err := New("/base", bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := New("relative", "zi"); err == nil {
		t.Error("a relative folder is taken")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for flag, change := range map[string]func(*Settings){
		"--nodes":              func(s *Settings) { s.Nodes = 0 },
		"51 nodes":             func(s *Settings) { s.Nodes = MaxNodes + 1 },
		"--api-port":           func(s *Settings) { s.APIPort = 70000 },
		"--node-status-period": func(s *Settings) { s.StatusPeriod = time.Millisecond },
		"grace period":         func(s *Settings) { s.GracePeriod = s.StatusPeriod },
	} {
		s := Defaults()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want an error about %q", err, flag)
		}
	}
}

func TestSettingsAreKept(t *testing.T) {
	c, err := New(t.TempDir(), "zi")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(); !errors.Is(err, ErrAbsent) {
		t.Errorf("an absent cluster gives %v", err)
	}
	want := Defaults()
	want.Nodes, want.Addons = 7, []string{"cert-manager"}
	if err := c.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Load(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWriteFileLeavesEqualFileAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	write := func(data string, mode os.FileMode) os.FileInfo {
		t.Helper()
		if err := WriteFile(path, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("mode is %o, want %o", info.Mode().Perm(), mode)
		}
		return info
	}
	first := write("x", 0o600)
	if again := write("x", 0o600); !os.SameFile(first, again) {
		t.Error("an equal file was replaced")
	}
	if other := write("y", 0o600); os.SameFile(first, other) {
		t.Error("a file was changed in place")
	}
	write("y", 0o644)
}

func TestLockOutlivesRemovedFolder(t *testing.T) {
	c, err := New(t.TempDir(), "zi")
	if err != nil {
		t.Fatal(err)
	}
	never := func() { t.Error("waited for a lock that nobody holds") }
	unlock, err := c.Lock(never)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	locked := make(chan error, 1)
	go func() {
		release, err := c.Lock(func() { close(waiting) })
		if err == nil {
			release()
		}
		locked <- err
	}()
	<-waiting
	// What "down" does: the folder goes away under the one who waits.
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Dir); err != nil {
		t.Errorf("the lock is on a folder that is gone: %v", err)
	}
}
