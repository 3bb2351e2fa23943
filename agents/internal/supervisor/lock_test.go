// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/datalock"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// withData runs a test in a pod with a data folder, which somebody else has when it begins.
func withData(t *testing.T, test func(h *harness, dir string, other *datalock.Lock)) {
	t.Helper()
	dir := t.TempDir()
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Process.Dir = dir
		h.mount(p)
		other := &datalock.Lock{}
		if err := other.Take(dir); err != nil {
			h.Fatal(err)
		}
		defer other.Release()
		test(h, dir, other)
	})
}

// wantWaiting: no process was started, and the status says why.
func (h *harness) wantWaiting(starts int) {
	h.Helper()
	got := h.status()
	if got.GetState() != starting || got.GetPid() != 0 || h.launcher.count() != starts ||
		!strings.Contains(got.GetMessage(), "another process manager still has it; the process is started as soon as") {
		h.Errorf("%d starts, status is %v", h.launcher.count(), got)
	}
}

func TestWaitsForTheDataFolder(t *testing.T) {
	withData(t, func(h *harness, dir string, other *datalock.Lock) {
		h.begin()
		h.wantWaiting(0)
		_, changed := h.sup.Status()
		h.advance(time.Minute)
		h.wantWaiting(0)
		select {
		case <-changed:
			t.Error("waiting makes news")
		default:
		}
		other.Release()
		h.advance(200 * time.Millisecond)
		h.want(starting)
		h.wantConfig(1)
		if got := h.status(); got.GetPid() != 100 || got.GetStarts() != 1 || got.GetMessage() != "" || !h.launcher.inherited {
			t.Errorf("status is %v", got)
		}
		// It is kept over crashes and restarts.
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.want(backoff)
		h.wantHeld(dir, other)
		h.settle()
		h.call(supervisor.Restart("r", 0, nil))
		h.settle()
		h.wantHeld(dir, other)
		// A stopped process needs it no more, and waits for it when it is started again.
		h.call(supervisor.Stop("stop", 0))
		h.want(stopped)
		if err := other.Take(dir); err != nil {
			t.Fatal(err)
		}
		h.call(supervisor.Start("start", 0))
		h.wantWaiting(3)
		h.wantOutcome("start", underWay, "")
		other.Release()
		h.settle()
		h.want(running)
		h.wantOutcome("start", succeeded, "")
		// So does a container that is gone.
		h.end()
		if err := other.Take(dir); err != nil {
			t.Error(err)
		}
	})
}

func (h *harness) wantHeld(dir string, other *datalock.Lock) {
	h.Helper()
	if err := other.Take(dir); !errors.Is(err, datalock.ErrHeld) {
		h.Errorf("got %v", err)
	}
}

func TestCallsWhileWaitingForTheDataFolder(t *testing.T) {
	withData(t, func(h *harness, dir string, other *datalock.Lock) {
		h.begin()
		h.call(supervisor.Reload("reload", 0, nil))
		h.wantOutcome("reload", failed, "not running")
		if got := h.status().GetLastCall().GetReason(); got != "" {
			t.Errorf("reason is %q: a restart would not help", got)
		}
		h.call(supervisor.Restart("restart", 0, h.plan(2)))
		h.want(starting)
		if got := h.launcher.count(); got != 1 {
			t.Errorf("a plan with no data folder waits for it, %d starts", got)
		}
		h.settle()
		p := h.plan(3)
		p.Process.Dir = dir
		h.call(supervisor.Restart("back", 0, p))
		h.wantWaiting(1)
		h.wantOutcome("back", underWay, "")
		h.call(supervisor.Start("start", 0))
		h.wantWaiting(1)
		h.call(supervisor.Stop("stop", 0))
		h.wantOutcome("stop", succeeded, "")
		h.want(stopped)
		other.Release()
		h.advance(time.Hour)
		h.want(stopped)
		if got := h.launcher.count(); got != 1 {
			t.Errorf("%d starts", got)
		}
	})
}

func TestShutdownWhileWaitingForTheDataFolder(t *testing.T) {
	withData(t, func(h *harness, _ string, _ *datalock.Lock) {
		h.begin()
		h.wantWaiting(0)
		if got := h.end(); got != 0 {
			t.Errorf("exit code is %d", got)
		}
	})
}

// A process that crashed starts in the folder that it has, and takes no part in who may write by a plan of another one:
// what was promised is there.
func TestAnotherDataFolderIsToldOf(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Process.Dir = first
		h.mount(p)
		h.begin()
		h.settle()
		p.Process.Dir, p.Domain, p.Writing = second, "server.shop.svc", &plan.Writing{Set: "server"}
		h.mount(p)
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.advance(time.Second)
		want := fmt.Sprintf("the folder with the data is %q in the plan, and the mounted one has %q", first, second)
		if got := h.status(); got.GetMessage() != want || got.GetPid() != 0 || h.launcher.count() != 1 {
			t.Errorf("%d starts, status is %v; want %s", h.launcher.count(), got, want)
		}
		if _, _, err := h.sup.Member(); err == nil {
			t.Error("it takes part")
		}
		// A plan of the folder that it has lets it start.
		p.Process.Dir, p.Writing, p.Domain = first, nil, ""
		h.mount(p)
		h.advance(time.Minute)
		h.want(running)
	})
}

// A plan that asks for the zone of the node starts nothing until the operator has told the pod.
func TestWaitsForTheZone(t *testing.T) {
	inPod(t, func(h *harness) {
		h.dirs.Pod = t.TempDir()
		p := h.plan(1)
		p.Process.Command = []string{"server", "${pod.zone}"}
		h.mount(p)
		h.begin()
		h.advance(time.Minute)
		if got := h.status(); got.GetState() != starting || h.launcher.count() != 0 ||
			!strings.Contains(got.GetMessage(), "zone of the pod's node is not known yet") {
			t.Errorf("%d starts, status is %v", h.launcher.count(), got)
		}
		h.write(filepath.Join(h.dirs.Pod, plan.ZoneFile), `"eu-1a"`)
		h.advance(200 * time.Millisecond)
		if got := h.status(); h.launcher.count() != 1 || got.GetMessage() != "" {
			t.Errorf("%d starts, status is %v", h.launcher.count(), got)
		}
	})
}
