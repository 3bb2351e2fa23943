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

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
)

func TestRestartInPlace(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		if record := h.call(supervisor.Restart("r", 0, nil)); record.GetPhase() != underWay ||
			record.GetMethod() != "Restart" {
			t.Errorf("record is %v", record)
		}
		h.want(starting)
		h.wantOutcome("r", underWay, "")
		h.settle()
		h.want(running)
		h.wantOutcome("r", succeeded, "")
		if got := h.status(); got.GetPid() != 101 || got.GetStarts() != 2 {
			t.Errorf("status is %v", got)
		}
	})
}

func TestRestartWithAPushedPlan(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Restart("r", 0, h.plan(2)))
		h.settle()
		h.wantConfig(2)
		if got := h.status().GetConfigDigest(); got != digest(2) {
			t.Errorf("digest is %s", got)
		}
		// The mounted plan still lags: the next container takes the pushed one.
		h.end()
		h.begin()
		h.wantConfig(2)
		// The mounted plan has moved on: it is newer.
		h.end()
		h.mount(h.plan(3))
		h.begin()
		h.wantConfig(3)
	})
}

// What cannot be put on the volume leaves no record, which the next container would take up without it.
func TestAPlanThatCannotBePushedIsNoCall(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		if err := os.MkdirAll(filepath.Join(h.dirs.Run, "pushed-plan.json", "in-its-place"), 0o700); err != nil {
			h.Fatal(err)
		}
		if _, err := h.sup.Call(h.Context(), supervisor.Restart("r", 0, h.plan(2))); err == nil {
			t.Error("a plan that cannot be written is taken")
		}
		if key := h.status().GetLastCall().GetIdempotencyKey(); key != "" {
			t.Errorf("call %q is on record", key)
		}
		h.want(running)
		h.wantConfig(1)
	})
}

func TestRestartWithoutAPlanTakesTheCurrentOne(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.mount(h.plan(2))
		h.call(supervisor.Restart("r", 0, nil))
		h.want(starting)
		h.wantConfig(2)
	})
}

func TestRestartThatDoesNotStayUpFails(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		h.call(supervisor.Restart("r", 0, h.plan(2)))
		h.want(starting)
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.want(backoff)
		h.wantOutcome("r", failed, "exit code 1")
		h.settle()
		h.want(running)
		h.wantConfig(2)
	})
}

func TestRestartFromBackoffStartsAtOnce(t *testing.T) {
	for name, call := range map[string]supervisor.Call{"Restart": supervisor.Restart("c", 0, nil),
		"Start": supervisor.Start("c", 0)} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(h *harness) {
				p := h.plan(1)
				p.Process.Backoff.InitialMilliseconds = 20_000
				h.mount(p)
				h.begin()
				h.launcher.last().end(reaper.Exit{Code: 1})
				h.want(backoff)
				h.call(call)
				h.want(starting)
				h.settle()
				h.wantOutcome("c", succeeded, "")
				// The delay that was cut short must not start another process.
				h.advance(time.Minute)
				if got := h.launcher.count(); got != 2 {
					t.Errorf("%d processes were started", got)
				}
			})
		})
	}
}

func TestPlanThatCannotBeAppliedTouchesNothing(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		bad := h.plan(2)
		bad.Files[0].Entries[1].Secret.Credential = "missing"
		wrong := h.plan(2)
		wrong.Files[0].Entries[0].Key = "a\nb"
		for key, test := range map[string]struct {
			call    supervisor.Call
			message string
		}{
			"restart, secret": {supervisor.Restart("restart, secret", 0, bad), "missing/password"},
			"reload, secret":  {supervisor.Reload("reload, secret", 0, bad), "missing/password"},
			"restart, key":    {supervisor.Restart("restart, key", 0, wrong), "the key must match"},
		} {
			if record := h.call(test.call); record.GetPhase() != failed {
				t.Errorf("%s: phase is %v", key, record.GetPhase())
			}
			h.wantOutcome(key, failed, test.message)
		}
		h.want(running)
		h.wantConfig(1)
		if got := h.status(); got.GetPid() != 100 || len(h.launcher.last().got()) != 0 {
			t.Errorf("status is %v", got)
		}
		h.end()
		h.begin()
		h.wantConfig(1)
	})
}

func TestRefusedRestartDoesNotEndAStop(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Stop("stop", 0))
		bad := h.plan(2)
		bad.Files[0].Entries[1].Secret.Credential = "missing"
		h.call(supervisor.Restart("r", 0, bad))
		h.want(stopped)
		h.end()
		h.begin()
		h.want(stopped)
	})
}

func TestStartDoesNothingToARunningProcess(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Start("early", 0))
		h.wantOutcome("early", succeeded, "")
		h.settle()
		h.call(supervisor.Start("late", 0))
		h.wantOutcome("late", succeeded, "")
		if got := h.launcher.count(); got != 1 {
			t.Errorf("%d processes were started", got)
		}
	})
}

func TestStartTakesTheCurrentPlan(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Stop("stop", 0))
		h.mount(h.plan(2))
		h.remove(filepath.Join(h.dirs.Secrets, "default", "password"))
		h.call(supervisor.Start("without secret", 0))
		h.wantOutcome("without secret", failed, "default/password")
		h.want(stopped)
		h.secret("hunter2")
		h.call(supervisor.Start("start", 0))
		h.settle()
		h.wantOutcome("start", succeeded, "")
		h.wantConfig(2)
	})
}

func TestLaterCallSupersedesTheOneUnderWay(t *testing.T) {
	inPod(t, func(h *harness) {
		h.launcher.ignores = map[syscall.Signal]bool{syscall.SIGTERM: true}
		h.begin()
		h.settle()
		first := h.launcher.last()
		h.call(supervisor.Restart("restart", 0, h.plan(2)))
		h.want(stopping)
		h.call(supervisor.Stop("stop", 0))
		if record := h.call(supervisor.Restart("restart", 0, nil)); record.GetPhase() != failed ||
			!strings.Contains(record.GetMessage(), "superseded") {
			t.Errorf("record is %v", record)
		}
		h.call(supervisor.Start("start", 0))
		first.end(reaper.Exit{})
		h.settle()
		h.want(running)
		h.wantOutcome("start", succeeded, "")
		// The pushed plan stays the current one.
		h.wantConfig(2)
		if got := len(first.got()); got != 1 {
			t.Errorf("the process got %d signals", got)
		}
	})
}

func TestRepeatedKeyDoesNothingAgain(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		h.call(supervisor.Restart("r", 5, nil))
		h.settle()
		for range 2 {
			// A lower term of a repetition is no matter: the answer is history.
			if record := h.call(supervisor.Restart("r", 4, h.plan(7))); record.GetPhase() != succeeded {
				t.Errorf("record is %v", record)
			}
			h.settle()
			h.end()
			h.begin()
			h.settle()
		}
		// One of the first container, one of the call, and one of each later container.
		if got := h.launcher.count(); got != 4 {
			t.Errorf("%d processes were started", got)
		}
		h.refused(supervisor.Stop("r", 5), callrecord.ErrKeyReused)
	})
}

func TestBadCallsLeaveNoRecord(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		h.call(supervisor.Signal("ok", 9, "SIGHUP"))
		h.refused(supervisor.Restart("", 9, nil), callrecord.ErrBadKey)
		h.refused(supervisor.Stop("a\x00", 9), callrecord.ErrBadKey)
		h.refused(supervisor.Stop("stale", 8), callrecord.ErrStaleTerm)
		h.refused(supervisor.Signal("s1", 9, "SIGWHAT"), supervisor.ErrInvalid)
		h.refused(supervisor.Signal("s2", 9, ""), supervisor.ErrInvalid)
		h.refused(supervisor.Signal("s3", 9, "SIGKILL"), supervisor.ErrInvalid)
		h.want(running)
		if got := h.launcher.last().got(); !slices.Equal(got, []syscall.Signal{syscall.SIGHUP}) {
			t.Errorf("signals are %v", got)
		}
	})
}

func TestSignalNeedsAProcess(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Stop("stop", 0))
		h.call(supervisor.Signal("s", 0, "SIGHUP"))
		h.wantOutcome("s", failed, "not running")
	})
}

func TestCallsUnderWayAreSettledByTheNextContainer(t *testing.T) {
	// A container that is killed leaves its record as it was at that moment.
	interrupted := func(h *harness, method string, intent callrecord.Intent) {
		h.Helper()
		store, err := callrecord.Open(h.dirs.Run)
		if err != nil {
			h.Fatal(err)
		}
		if err := store.Begin("c", method, 0, intent); err != nil {
			h.Fatal(err)
		}
	}
	for _, test := range []struct {
		method string
		intent callrecord.Intent
		failed bool
	}{{"Restart", callrecord.Run, false}, {"Start", callrecord.Run, false}, {"Stop", callrecord.Stop, false},
		{"Reload", "", true}, {"Signal", "", true}} {
		t.Run(test.method, func(t *testing.T) {
			inPod(t, func(h *harness) {
				interrupted(h, test.method, test.intent)
				h.begin()
				h.settle()
				if test.failed {
					h.wantOutcome("c", failed, "container was restarted")
				} else {
					h.wantOutcome("c", succeeded, "")
				}
			})
		})
	}
}

func TestCallsDuringShutdownAreRefused(t *testing.T) {
	inPod(t, func(h *harness) {
		h.launcher.ignores = map[syscall.Signal]bool{syscall.SIGTERM: true}
		h.begin()
		h.shutdown()
		h.want(stopping)
		h.refused(supervisor.Restart("r", 0, nil), supervisor.ErrShuttingDown)
		h.launcher.last().end(reaper.Exit{})
		h.end()
		h.refused(supervisor.Restart("r", 0, nil), supervisor.ErrShuttingDown)
	})
}
