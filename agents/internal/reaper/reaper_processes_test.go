// SPDX-License-Identifier: Apache-2.0

//go:build processes

package reaper_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/testexec"
)

func TestDoneDoesNotWaitForeverForAGroup(t *testing.T) {
	// The second shell leaves the group for a session of its own, and its child, which stays in the group, is never waited
	// for.
	lines, writer := pipe(t)
	script := `sh -c 'sleep 0.01 & echo $$; exec setsid sleep 1000' & wait`
	p := start(t, reaper.Spec{Command: []string{"sh", "-c", script}, Stdout: writer})
	stranger := number(t, lines)
	defer syscall.Kill(stranger, syscall.SIGKILL)
	awaitSession(t, stranger)
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("the process is not done")
	}
	if waited := time.Since(killed); waited < 500*time.Millisecond {
		t.Errorf("done after %v: the group was no obstacle, so the test shows nothing", waited)
	}
}

// TestOrphansLeaveNoZombies makes a thousand processes lose their parent.
func TestOrphansLeaveNoZombies(t *testing.T) {
	const orphans = 1000
	script := `i=0; while [ $i -lt ` + strconv.Itoa(orphans) + ` ]; do (setsid sleep 0.2 &); i=$((i+1)); done`
	if exit := start(t, reaper.Spec{Command: []string{"sh", "-c", script}}).Exit(); exit.Code != 0 {
		t.Fatalf("got %s", exit)
	}
	wait(t, "the end of all children", func() bool { return children(t) == 0 })
}

// children counts the children of this program, zombies included.
func children(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(tasks) == 0 {
		t.Fatalf("cannot count children: %v, %v", tasks, err)
	}
	count := 0
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		count += len(strings.Fields(string(data)))
	}
	return count
}

// TestNothingWaitsForACommandToLoad: a process is killed and collected, and memory, too, while another one is being
// started, which takes as long as its disk.
func TestNothingWaitsForACommandToLoad(t *testing.T) {
	// As the process manager has it, on a machine with a single processor too.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	lines, writer := pipe(t)
	p := start(t, reaper.Spec{Command: []string{"sh", "-c", "echo $$; exec sleep 1000"}, Stdout: writer})
	number(t, lines)
	slow := testexec.Hold(t)
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() {
		_, err := r.Start(reaper.Spec{Command: []string{slow.Path}})
		started <- err
	}()
	wait(t, "the command to be loaded", slow.Wanted)
	runtime.GC()
	if err := p.SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Exit()
	select {
	case err := <-started:
		t.Fatalf("the command was not held: %v", err)
	default:
	}
	slow.Release()
	if err := <-started; err != nil {
		t.Error(err)
	}
}
