// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// runner has a Makefile with these targets.
func runner(t *testing.T, targets string) (Runner, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "Makefile"), []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	return Runner{Root: root, Logs: filepath.Join(root, "logs"), Out: out}, out
}

func TestRunKeepsAndShowsOutput(t *testing.T) {
	r, out := runner(t, "good:\n\t@echo $$TEST_EVENTS\nbad:\n\t@echo broken; exit 3\n")
	if err := r.Run(t.Context(), "good"); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(r.Log("good"))
	if err != nil || strings.TrimSpace(string(kept)) != r.Events("good") || out.String() != string(kept) {
		t.Errorf("kept %q, shown %q, %v; want %q", kept, out, err, r.Events("good"))
	}
	if err := r.Run(t.Context(), "bad"); err == nil || !strings.Contains(out.String(), "broken") {
		t.Errorf("got %v and %q, want an error and the output", err, out)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	r, _ := runner(t, "endless:\n\t@trap 'touch cleaned; exit 1' TERM; touch begun; sleep infinity & wait\n")
	interrupt(t, r, "endless")
	if _, err := os.Stat(filepath.Join(r.Root, "cleaned")); err != nil {
		t.Errorf("the stage did not clean up: %v", err)
	}
}

// A test's API server has a process group of its own, which the signal to the stage does not reach.
func TestInterruptedRunEndsProcessesOfOtherGroups(t *testing.T) {
	r, _ := runner(t, "serves:\n\t@setsid sh -c 'echo $$$$ >server; touch begun; exec sleep infinity' & sleep infinity\n")
	interrupt(t, r, "serves")
	server, err := os.ReadFile(filepath.Join(r.Root, "server"))
	if err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, strings.TrimSpace(string(server)))
}

// interrupt runs a target that makes the file begun, and ends its context then.
func interrupt(t *testing.T, r Runner, target string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		defer cancel(interrupted)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(r.Root, "begun")); err == nil {
				return
			}
		}
	}()
	if err := r.Run(ctx, target); !errors.Is(err, interrupted) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}

func TestRunEndsWhatAStageLeftBehind(t *testing.T) {
	r, out := runner(t, "leaves:\n\t@sleep infinity & echo $$!\n")
	if err := r.Run(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, strings.TrimSpace(out.String()))
}

// waitForEnd waits until a process, named by its ID, is gone, or waits for its new parent to read how it ended.
func waitForEnd(t *testing.T, pid string) {
	t.Helper()
	stat := filepath.Join("/proc", pid, "stat")
	state, err := os.ReadFile(stat)
	for deadline := time.Now().Add(2 * time.Minute); err == nil && !strings.Contains(string(state), ") Z"); {
		if time.Now().After(deadline) {
			t.Fatalf("process %s still runs: %s", pid, state)
		}
		runtime.Gosched()
		state, err = os.ReadFile(stat)
	}
}
