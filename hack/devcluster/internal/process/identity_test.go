// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := func(name, state, flags string) []byte {
		return []byte("42 (" + name + ") " + state + " 1 42 42 0 -1 " + flags + " 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 10 0")
	}
	for _, name := range []string{"etcd", "a b", ") S 1 2", "((x"} {
		if st, err := parseStat(line(name, "S", "4194560")); err != nil || st != (status{start: 987654}) {
			t.Errorf("program named %q: %+v, %v", name, st, err)
		}
	}
	if st, err := parseStat(line("etcd", "Z", "4")); err != nil || !st.over || !st.exiting {
		t.Errorf("a zombie is %+v, %v", st, err)
	}
	if st, err := parseStat(line("etcd", "D", "4194564")); err != nil || st.over || !st.exiting {
		t.Errorf("a process on its way out is %+v, %v", st, err)
	}
	for _, bad := range []string{"", "42 etcd S", "42 (etcd) S 1 2 3",
		"42 (etcd) S 1 42 42 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 x 1 1",
		"42 (etcd) S 1 42 42 0 -1 x 1 0 0 0 0 0 0 0 20 0 1 0 9 1 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestIdentityTellsProcessesApart(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	for what, other := range map[string]Identity{
		"an earlier process of that number": {PID: self.PID, Start: self.Start - 1, Boot: self.Boot},
		"a process of another boot":         {PID: self.PID, Start: self.Start, Boot: "other"},
		"no process":                        {},
	} {
		if other.Alive() {
			t.Errorf("%s passes for this one", what)
		}
		// It must not be signalled: this test would end here.
		if err := other.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("signal to %s: %v", what, err)
		}
	}
}

func TestStopEndsStubbornProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do read x < /dev/zero; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended, err := Start(cmd, Placement{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Stop(context.Background(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || id.Alive() {
		t.Errorf("the process still lives, or ended well: %v", err)
	}
}

func TestRecordIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pids", "x.json")
	want := Record{Identity: Identity{PID: 7, Start: 8, Boot: "b"}, Fingerprint: "f"}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	if got := Load(path); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := os.WriteFile(path, []byte(`{"pid":7,`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Load(path); got != (Record{}) {
		t.Errorf("a torn record is read as %+v", got)
	}
	for range 2 {
		if err := Forget(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUntilEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Until(ctx, time.Hour, func() (bool, error) { return false, nil }); err == nil {
		t.Error("no error although the condition never held")
	}
	if err := Until(ctx, time.Hour, func() (bool, error) { return true, nil }); err != nil {
		t.Errorf("a condition that holds at once needs no time: %v", err)
	}
}
