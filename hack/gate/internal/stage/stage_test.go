// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	if err := r.Run(ctx, "endless"); !errors.Is(err, interrupted) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
	if _, err := os.Stat(filepath.Join(r.Root, "cleaned")); err != nil {
		t.Errorf("the stage did not clean up: %v", err)
	}
}

func TestRunEndsWhatAStageLeftBehind(t *testing.T) {
	r, out := runner(t, "leaves:\n\t@sleep infinity & echo $$!\n")
	if err := r.Run(t.Context(), "leaves"); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	// Killed it is gone, or waits for who has adopted it.
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	for deadline := time.Now().Add(2 * time.Minute); err == nil && !strings.Contains(string(state), ") Z"); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs: %s", pid, state)
		}
		runtime.Gosched()
		state, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	}
}
