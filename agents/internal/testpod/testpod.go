// SPDX-License-Identifier: Apache-2.0

// Package testpod is what tests of packages of an agent need of a pod: its folders, its one reaper, and patience.
package testpod

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/action"
	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Patience bounds every wait for a condition.
const Patience = 2 * time.Minute

// Eventually waits until the condition holds; it returns an error while it does not.
func Eventually(t *testing.T, holds func() error) {
	t.Helper()
	timeout := time.After(Patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal(err)
		}
	}
}

// shared is the one reaper of the test program, as there is one in a real program.
var shared = sync.OnceValues(func() (*reaper.Reaper, error) { return reaper.New(slog.New(slog.DiscardHandler)) })

// Dirs makes the folders of a pod, and mounts the plan, which gets what every plan must have.
func Dirs(t testing.TB, pod string, p plan.Plan) planfile.Dirs {
	t.Helper()
	root := t.TempDir()
	dirs := planfile.Dirs{Plan: filepath.Join(root, "plan"), Config: filepath.Join(root, "config"),
		Run:     filepath.Join(root, "run"),
		Secrets: filepath.Join(root, "secrets"), PodName: pod}
	for _, dir := range []string{dirs.Plan, dirs.Run, dirs.Secrets} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	p.Version, p.Digest, p.Process.Command = 1, "sha256:"+strings.Repeat("0", 64), []string{"true"}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dirs.MountedPath(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dirs
}

// Runner is the ops agent of one container.
func Runner(t *testing.T, dirs planfile.Dirs) *action.Runner {
	t.Helper()
	r, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	store, err := callrecord.OpenActions(dirs.Run)
	if err != nil {
		t.Fatal(err)
	}
	runner := action.New(dirs, dirs.Secret, r, store, slog.New(slog.DiscardHandler))
	t.Cleanup(runner.Close)
	return runner
}

// Ended waits for the end of a run, and returns its record.
func Ended(t *testing.T, run *action.Run, err error) callrecord.Record {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-run.Done():
	case <-time.After(Patience):
		t.Fatal("the run does not end")
	}
	return run.Record()
}
