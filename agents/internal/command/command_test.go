// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
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

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/reaper"
)

var shared = sync.OnceValues(func() (*reaper.Reaper, error) { return reaper.New(slog.New(slog.DiscardHandler)) })

func run(ctx context.Context, t *testing.T, timeout time.Duration, argv ...string) (command.Result, error) {
	t.Helper()
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return command.Run(ctx, r, command.Spec{Command: argv, Env: os.Environ(), Timeout: timeout})
}

func TestResult(t *testing.T) {
	got, err := run(t.Context(), t, time.Minute, "sh", "-c", "echo out; echo err >&2; exit 3")
	want := command.Result{Stdout: "out\n", Stderr: "err\n", Exit: reaper.Exit{Code: 3}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestOutputUpToTheBoundIsWhole(t *testing.T) {
	got, err := run(t.Context(), t, time.Minute, "head", "-c", strconv.Itoa(command.MaxOutput), "/dev/zero")
	if err != nil || len(got.Stdout) != command.MaxOutput || got.Exit.Code != 0 {
		t.Errorf("got %d bytes, %s, %v", len(got.Stdout), got.Exit, err)
	}
}

func TestTooMuchOutputIsReportedAndDoesNotBlock(t *testing.T) {
	for _, redirection := range []string{"", " >&2"} {
		_, err := run(t.Context(), t, time.Minute, "sh", "-c", "head -c 5000000 /dev/zero"+redirection)
		if !errors.Is(err, command.ErrTooMuchOutput) {
			t.Errorf("got %v", err)
		}
	}
}

func TestHungCommandIsKilledWithItsGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	_, err := run(t.Context(), t, time.Second, "sh", "-c", "trap '' TERM INT; sleep 1000 & echo $! >"+pidFile+"; wait")
	if !errors.Is(err, command.ErrTimeout) || !strings.Contains(err.Error(), "1s") {
		t.Fatalf("got %v", err)
	}
	data, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of the group is still there: %v", pid, err)
	}
}

func TestCancelledCommandIsKilled(t *testing.T) {
	stop := errors.New("no longer needed")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			if _, err := os.Stat(started); err == nil {
				cancel(stop)
				return
			}
		}
	}()
	if _, err := run(ctx, t, time.Minute, "sh", "-c", "touch "+started+"; exec sleep 1000"); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

func TestStrayThatHoldsTheOutputDoesNotBlock(t *testing.T) {
	got, err := run(t.Context(), t, time.Minute, "sh", "-c",
		"setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2; echo done")
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(got.Stdout, "\n")
	stray, err := strconv.Atoi(first)
	if err != nil || rest != "done\n" {
		t.Fatalf("got %q, %v", got.Stdout, err)
	}
	if err := syscall.Kill(stray, syscall.SIGKILL); err != nil {
		t.Errorf("the stray was not there, so the test shows nothing: %v", err)
	}
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	if _, err := run(t.Context(), t, time.Minute, "no-such-tool"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestNoDescriptorsAreLeft(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if _, err := run(t.Context(), t, time.Minute, "true"); err != nil {
		t.Fatal(err)
	}
	before := count()
	for range 50 {
		if _, err := run(t.Context(), t, time.Minute, "true"); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
