// SPDX-License-Identifier: Apache-2.0

package reaper_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/reaper"
)

// shared is the one reaper of the test program, as there is one in a real program.
var shared = sync.OnceValues(func() (*reaper.Reaper, error) { return reaper.New(slog.New(slog.DiscardHandler)) })

func start(t *testing.T, spec reaper.Spec) *reaper.Process {
	t.Helper()
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	if spec.Env == nil {
		spec.Env = os.Environ()
	}
	p, err := r.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.SignalGroup(syscall.SIGKILL); err != nil && !errors.Is(err, reaper.ErrEnded) {
			t.Error(err)
		}
		p.Exit()
	})
	return p
}

// pipe gives a reader of lines and the end for a process to write to.
func pipe(t *testing.T) (*bufio.Reader, *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(); writer.Close() })
	if err := reader.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(reader), writer
}

func number(t *testing.T, lines *bufio.Reader) int {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestExitIsReported(t *testing.T) {
	for _, test := range []struct {
		script string
		text   string
		code   int
	}{
		{"exit 0", "exit code 0", 0},
		{"exit 3", "exit code 3", 3},
		{"kill -9 $$", "signal SIGKILL", 137},
		{"kill -15 $$", "signal SIGTERM", 143},
	} {
		exit := start(t, reaper.Spec{Command: []string{"sh", "-c", test.script}}).Exit()
		if exit.String() != test.text || exit.ShellCode() != test.code {
			t.Errorf("%s: got %q and %d", test.script, exit, exit.ShellCode())
		}
	}
}

func TestEnvironmentDirectoryAndOutputAreHandedOver(t *testing.T) {
	dir := t.TempDir()
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c", `echo "$VALUE $(pwd)"; echo err >&2; cat`},
		Env: []string{"PATH=" + os.Getenv("PATH"), "VALUE=a b"}, Dir: dir, Stdout: writer, Stderr: writer})
	if exit := p.Exit(); exit.Code != 0 {
		t.Fatalf("got %s", exit)
	}
	for _, want := range []string{"a b " + dir + "\n", "err\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestCommandIsLookedUpInItsOwnPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := start(t, reaper.Spec{Command: []string{"tool"}, Env: []string{"PATH=/nowhere:" + dir}})
	if exit := p.Exit(); exit.Code != 7 {
		t.Errorf("got %s", exit)
	}
}

func TestCommandsThatCannotBeStarted(t *testing.T) {
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	plainFile := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plainFile, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		spec reaper.Spec
		want error
	}{
		{reaper.Spec{Command: []string{"no-such-tool"}, Env: []string{"PATH=/bin"}}, fs.ErrNotExist},
		{reaper.Spec{Command: []string{"sh"}}, fs.ErrNotExist},
		{reaper.Spec{Command: []string{"/no/such/tool"}}, fs.ErrNotExist},
		{reaper.Spec{Command: []string{plainFile}}, fs.ErrPermission},
		{reaper.Spec{Command: []string{"/bin/sh"}, Dir: "/no/such/dir"}, fs.ErrNotExist},
	} {
		if _, err := r.Start(test.spec); !errors.Is(err, test.want) {
			t.Errorf("%v: got %v, want %v", test.spec.Command, err, test.want)
		}
	}
	if _, err := r.Start(reaper.Spec{}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("empty command: got %v", err)
	}
}

func TestGroupEndsWithItsLeader(t *testing.T) {
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c", "trap '' TERM; sleep 1000 & echo $!; exit 4"}, Stdout: writer})
	child := number(t, lines)
	if exit := p.Exit(); exit.Code != 4 {
		t.Errorf("got %s", exit)
	}
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of the group is still there: %v", child, err)
	}
}

func TestSignalReachesTheLeaderAlone(t *testing.T) {
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c",
		"trap 'echo 1' USR1; (trap 'echo 2' USR1; echo 0; while :; do sleep 0.01; done) & while :; do wait; done"},
		Stdout: writer})
	if got := number(t, lines); got != 0 {
		t.Fatalf("got %d", got)
	}
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := number(t, lines); got != 1 {
		t.Errorf("process %d got the signal", got)
	}
}

func TestSignalAfterTheEnd(t *testing.T) {
	p := start(t, reaper.Spec{Command: []string{"true"}})
	p.Exit()
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, reaper.ErrEnded) {
		t.Errorf("got %v", err)
	}
	if err := p.SignalGroup(syscall.SIGTERM); !errors.Is(err, reaper.ErrEnded) {
		t.Errorf("got %v", err)
	}
}

// awaitSession waits until the process leads a session of its own.
func awaitSession(t *testing.T, pid int) {
	t.Helper()
	wait(t, fmt.Sprintf("a session of process %d", pid), func() bool {
		sid, err := unix.Getsid(pid)
		return err == nil && sid == pid
	})
}

// wait waits until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for tick := time.NewTicker(time.Millisecond); ; {
		if holds() {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestManyShortProcessesAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for i := range 200 {
		p := start(t, reaper.Spec{Command: []string{"sh", "-c", "exit " + strconv.Itoa(i%50)}})
		group.Go(func() {
			if exit := p.Exit(); exit.Code != i%50 {
				t.Errorf("process %d: got %s", i, exit)
			}
		})
	}
	group.Wait()
}
