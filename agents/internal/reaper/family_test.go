// SPDX-License-Identifier: Apache-2.0

package reaper_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/reaper"
)

func wantGone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestWhoLeftTheGroupEndsWithTheLeader(t *testing.T) {
	lines, writer := pipe(t)
	// The stranger has a session of its own and a child there, in yet another one; both ignore what can be ignored.
	stranger := `trap '' TERM HUP INT; setsid sh -c 'trap "" TERM HUP INT; echo $$; while :; do sleep 1000; done' & ` +
		`echo $$; while :; do sleep 1000; done`
	p := start(t, reaper.Spec{Command: []string{"sh", "-c", `setsid sh -c "$0" & while :; do sleep 1000; done`, stranger},
		Stdout: writer, Family: reaper.Everyone})
	first, second := number(t, lines), number(t, lines)
	for _, pid := range []int{first, second} {
		awaitSession(t, pid)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := p.Exit(); exit.Signal != syscall.SIGTERM {
		t.Errorf("got %s", exit)
	}
	// Done means that all of them are gone, not that they will be.
	wantGone(t, first)
	wantGone(t, second)
}

func TestWhoLeftTheGroupLongAgoEndsWithTheLeader(t *testing.T) {
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c",
		`(setsid sh -c 'echo $$; exec sleep 1000' &); echo 0; while :; do sleep 1000; done`}, Stdout: writer,
		Family: reaper.Everyone})
	// The two lines come in any order, and one is 0.
	daemon := number(t, lines) + number(t, lines)
	awaitSession(t, daemon)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Exit()
	wantGone(t, daemon)
}

func TestOtherProcessesAreNobodysFamily(t *testing.T) {
	lines, writer := pipe(t)
	beside := start(t, reaper.Spec{Command: []string{"sh", "-c", "sleep 1000 & echo $!; wait"}, Stdout: writer})
	child := number(t, lines)
	// The same for one whose parent is gone, but that has not left the group.
	orphaned := start(t, reaper.Spec{Command: []string{"sh", "-c", "(sleep 1000 & echo $!); exec sleep 1000"},
		Stdout: writer})
	orphan := number(t, lines)
	p := start(t, reaper.Spec{Command: []string{"true"}, Family: reaper.Everyone})
	p.Exit()
	for _, pid := range []int{beside.PID(), child, orphaned.PID(), orphan} {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

func TestCommandLeavesTheFamilyOfTheOthersAlone(t *testing.T) {
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c",
		`(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000`}, Stdout: writer, Family: reaper.Everyone})
	daemon := number(t, lines)
	awaitSession(t, daemon)
	start(t, reaper.Spec{Command: []string{"true"}}).Exit()
	if err := syscall.Kill(daemon, 0); err != nil {
		t.Errorf("the daemon of the other process: %v", err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Exit()
	wantGone(t, daemon)
}

func TestFileIsInherited(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if exit := start(t, reaper.Spec{Command: []string{"sh", "-c", "echo x >&3"}, Inherited: file}).Exit(); exit.Code != 0 {
		t.Fatalf("got %s", exit)
	}
	if got, err := os.ReadFile(file.Name()); err != nil || string(got) != "x\n" {
		t.Errorf("got %q, %v", got, err)
	}
	exit := start(t, reaper.Spec{Command: []string{"sh", "-c", "exec 2>/dev/null; echo x >&3"}}).Exit()
	if exit.Code == 0 {
		t.Error("a file was inherited that was not given")
	}
}
