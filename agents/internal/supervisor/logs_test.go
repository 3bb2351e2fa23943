// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const lookAtLogs = 2 * time.Second

// withLogs runs a test in a pod whose process logs to dir, where each of 5 generations may have share bytes.
func withLogs(t *testing.T, share int64, test func(h *harness, dir string)) {
	t.Helper()
	dir := t.TempDir()
	inPod(t, func(h *harness) {
		h.mountLogs(dir, share)
		test(h, dir)
	})
}

func (h *harness) mountLogs(dir string, share int64) {
	p := h.plan(1)
	p.Logs = &plan.Logs{Dir: dir, Files: []string{"access.log"}, MaxBytes: 5 * share, Signal: "SIGUSR1"}
	h.mount(p)
}

func (h *harness) grow(dir string, bytes int) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(dir, "access.log"), []byte(strings.Repeat("x", bytes)), 0o600); err != nil {
		h.Fatal(err)
	}
}

// wantReopened: how often the present process was told to open its files anew.
func (h *harness) wantReopened(dir string, times int) {
	h.Helper()
	last := h.launcher.last()
	last.mu.Lock()
	got := len(slices.DeleteFunc(slices.Clone(last.signals),
		func(sig syscall.Signal) bool { return sig != syscall.SIGUSR1 }))
	last.mu.Unlock()
	if _, err := os.Stat(filepath.Join(dir, "access.log")); got != times || (times > 0) != os.IsNotExist(err) {
		h.Errorf("told %d times, the file: %v; want %d", got, err, times)
	}
}

func TestAccessLogsAreKeptWithinBounds(t *testing.T) {
	withLogs(t, 100, func(h *harness, dir string) {
		h.begin()
		h.grow(dir, 101)
		h.want(starting)
		h.wantReopened(dir, 0)
		h.settle()
		h.advance(lookAtLogs)
		h.wantReopened(dir, 1)
		// A process that is not there is told nothing, and its files stay.
		h.grow(dir, 101)
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.want(backoff)
		if _, err := os.Stat(filepath.Join(dir, "access.log")); err != nil {
			t.Error(err)
		}
		h.settle()
		h.advance(lookAtLogs)
		h.wantReopened(dir, 1)
	})
}

// A larger volume is taken up from the mounted plan while the process runs on.
func TestAccessLogsTakeUpALargerVolume(t *testing.T) {
	withLogs(t, 100, func(h *harness, dir string) {
		h.begin()
		h.settle()
		h.advance(lookAtLogs)
		h.mountLogs(dir, 200)
		later := time.Now().Add(time.Minute)
		if err := os.Chtimes(h.dirs.MountedPath(), later, later); err != nil {
			t.Fatal(err)
		}
		h.grow(dir, 150)
		h.advance(lookAtLogs)
		h.wantReopened(dir, 0)
		h.grow(dir, 201)
		h.advance(lookAtLogs)
		h.wantReopened(dir, 1)
	})
}
