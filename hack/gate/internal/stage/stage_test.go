// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		for {
			if _, err := os.Stat(filepath.Join(r.Root, "begun")); err == nil {
				cancel(interrupted)
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
