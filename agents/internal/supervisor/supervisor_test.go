// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"errors"
	"log/slog"
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
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

func TestStart(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.want(starting)
		h.wantConfig(1)
		h.settle()
		h.want(running)
		got := h.status()
		if got.GetPid() != 100 || got.GetStarts() != 1 || got.GetConfigDigest() != digest(1) || got.GetMessage() != "" ||
			got.GetStartedAtUnixMs() == 0 {
			t.Errorf("status is %v", got)
		}
	})
}

func TestNewProcessIsNeverSaidToBeStopped(t *testing.T) {
	inPod(t, func(h *harness) {
		store, err := callrecord.Open(h.dirs.Run)
		if err != nil {
			t.Fatal(err)
		}
		state := func() agentv1.ProcessState {
			status, _ := supervisor.New(h.dirs, h.launcher, store, nil, slog.New(slog.DiscardHandler)).Status()
			return status.GetState()
		}
		if got := state(); got != starting {
			t.Errorf("state is %v", got)
		}
		if err := store.Begin("stop", "Stop", 0, callrecord.Stop); err != nil {
			t.Fatal(err)
		}
		if got := state(); got != stopped {
			t.Errorf("state is %v", got)
		}
	})
}

func TestShutdownEndsWithTheExitCodeOfTheProcess(t *testing.T) {
	for _, test := range []struct {
		exit reaper.Exit
		want int
	}{{reaper.Exit{}, 0}, {reaper.Exit{Code: 3}, 3}, {reaper.Exit{Code: -1, Signal: syscall.SIGTERM}, 143}} {
		inPod(t, func(h *harness) {
			h.launcher.ignores = map[syscall.Signal]bool{syscall.SIGTERM: true}
			h.begin()
			p := h.launcher.last()
			h.shutdown()
			h.want(stopping)
			p.end(test.exit)
			if got := h.end(); got != test.want {
				t.Errorf("%s: exit code is %d, want %d", test.exit, got, test.want)
			}
		})
	}
}

func TestShutdownWithoutAProcess(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.want(backoff)
		if got := h.end(); got != 0 {
			t.Errorf("exit code is %d", got)
		}
	})
}

func TestStopIsGracefulThenNot(t *testing.T) {
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Process.Stop = plan.Stop{Signal: "SIGINT", TimeoutSeconds: 7}
		h.mount(p)
		h.launcher.ignores = map[syscall.Signal]bool{syscall.SIGINT: true}
		h.begin()
		h.settle()
		begin := time.Now()
		if record := h.call(supervisor.Stop("stop", 0)); record.GetPhase() != underWay {
			t.Errorf("phase is %v", record.GetPhase())
		}
		h.advance(7*time.Second - time.Millisecond)
		h.want(stopping)
		h.advance(time.Millisecond)
		h.want(stopped)
		if got := h.launcher.last().got(); !slices.Equal(got, []syscall.Signal{syscall.SIGINT}) {
			t.Errorf("signals are %v", got)
		}
		if got := h.status(); got.GetLastExit() != "signal SIGKILL" || got.GetPid() != 0 || got.GetConfigDigest() != "" {
			t.Errorf("status is %v after %v", got, time.Since(begin))
		}
		h.wantOutcome("stop", succeeded, "")
	})
}

func TestStoppedStaysStoppedInTheNextContainer(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.call(supervisor.Stop("stop", 0))
		h.want(stopped)
		if got := h.end(); got != 0 {
			t.Errorf("exit code is %d", got)
		}
		h.begin()
		h.advance(time.Hour)
		h.want(stopped)
		if got := h.launcher.count(); got != 1 {
			t.Errorf("%d processes were started", got)
		}
		h.call(supervisor.Start("start", 0))
		h.settle()
		h.want(running)
		h.wantOutcome("start", succeeded, "")
		h.end()
		h.begin()
		h.want(starting)
	})
}

// Why a process ends by itself is told by its own words, but for secrets, and for those of one that others killed.
func TestLastWordsOfAProcessAreTold(t *testing.T) {
	const ended = "the process ended by itself: exit code 1"
	for name, c := range map[string]struct {
		exit        reaper.Exit
		words, want string
	}{
		"none":     {reaper.Exit{Code: 1}, "", ended},
		"an error": {reaper.Exit{Code: 1}, "fatal: no such file", ended + ": fatal: no such file"},
		"secrets": {reaper.Exit{Code: 1}, "bad password hunter2 of account key-of-bucket",
			ended + ": bad password *** of account ***"},
		"long": {reaper.Exit{Code: 1}, strings.Repeat("x", 511) + "é", ended + ": " + strings.Repeat("x", 511) + "…"},
		"aborted": {reaper.Exit{Code: -1, Signal: syscall.SIGABRT}, "assertion failed",
			"the process ended by itself: signal SIGABRT: assertion failed"},
		"killed": {reaper.Exit{Code: -1, Signal: syscall.SIGKILL}, "GET /", "the process ended by itself: signal SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(h *harness) {
				bucket := filepath.Join(h.dirs.Secrets, "bucket")
				if err := os.Mkdir(bucket, 0o750); err != nil {
					t.Fatal(err)
				}
				h.write(filepath.Join(bucket, "password"), "key-of-bucket\n")
				h.begin()
				last := h.launcher.last()
				last.words = c.words
				last.end(c.exit)
				h.want(backoff)
				if got := h.status().GetMessage(); got != c.want {
					t.Errorf("the message is %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A process that ends again and again is no news each time because its words have the time of day.
func TestLastWordsThatDifferInNumbersAreNoNews(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		for _, words := range [][2]string{
			{"10:15:00 [7] no model", "10:15:00 [7] no model"}, {"10:15:01 [9] no model", "10:15:00 [7] no model"},
			{"10:15:03 [9] no room", "10:15:03 [9] no room"}, {"", ""}, {"10:15:05 [9] no model", "10:15:05 [9] no model"},
		} {
			last := h.launcher.last()
			last.words = words[0]
			last.end(reaper.Exit{Code: 1})
			h.want(backoff)
			_, got, _ := strings.Cut(h.status().GetMessage(), "exit code 1")
			if got = strings.TrimPrefix(got, ": "); got != words[1] {
				t.Errorf("after %q the message has %q, want %q", words[0], got, words[1])
			}
			h.advance(time.Minute)
			h.want(running)
		}
	})
}

func TestCrashIsHealedInPlaceWithGrowingDelays(t *testing.T) {
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Process.Backoff = plan.Backoff{InitialMilliseconds: 100, MaxSeconds: 1, ResetSeconds: 10}
		h.mount(p)
		h.begin()
		for _, delay := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			delay *= time.Millisecond
			h.launcher.last().end(reaper.Exit{Code: 1})
			h.want(backoff)
			if got := h.status().GetMessage(); got != "the process ended by itself: exit code 1" {
				t.Errorf("message is %q", got)
			}
			if got := h.status(); got.GetConfigDigest() != p.Digest || got.GetRestartDigest() != p.RestartDigest {
				t.Errorf("digests are %q and %q, want those of the plan: %q and %q", got.GetConfigDigest(), got.GetRestartDigest(),
					p.Digest, p.RestartDigest)
			}
			h.advance(delay - time.Millisecond)
			h.want(backoff)
			h.advance(time.Millisecond)
			h.want(starting)
		}
		if got := h.status(); got.GetStarts() != 7 || got.GetMessage() != "" {
			t.Errorf("status is %v", got)
		}
		// After a long run the first delay is back.
		h.advance(10 * time.Second)
		h.launcher.last().end(reaper.Exit{Code: -1, Signal: syscall.SIGKILL})
		h.want(backoff)
		h.advance(100 * time.Millisecond)
		h.want(starting)
		h.settle()
		h.want(running)
		if got := h.status().GetLastExit(); got != "signal SIGKILL" {
			t.Errorf("last exit is %q", got)
		}
	})
}

func TestDefaultsOfBackoff(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.advance(200*time.Millisecond - 1)
		h.want(backoff)
		h.advance(1)
		h.want(starting)
		for range 12 {
			h.launcher.last().end(reaper.Exit{Code: 1})
			h.advance(31 * time.Second)
			h.want(running)
		}
	})
}

func TestSecretsAreReadAtEachStart(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.secret("rotated")
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.settle()
		if got := h.config(); !strings.Contains(got, "requirepass rotated") {
			t.Errorf("configuration is %q", got)
		}
	})
}

func TestCrashDoesNotTakeUpAMountedPlan(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.mount(h.plan(2))
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.settle()
		h.wantConfig(1)
		h.end()
		h.begin()
		h.wantConfig(2)
	})
}

func TestStartThatFailsIsTriedAgainWithTheMendedPlan(t *testing.T) {
	inPod(t, func(h *harness) {
		h.write(filepath.Join(h.dirs.Plan, plan.PlanFile), `{"version":9}`)
		h.begin()
		h.want(backoff)
		if got := h.status().GetMessage(); !strings.Contains(got, "version is 9") {
			t.Errorf("message is %q", got)
		}
		h.mount(h.plan(3))
		h.remove(filepath.Join(h.dirs.Secrets, "default", "password"))
		h.advance(200 * time.Millisecond)
		h.want(backoff)
		if got := h.status().GetMessage(); !strings.Contains(got, "default/password") {
			t.Errorf("message is %q", got)
		}
		h.secret("hunter2")
		h.launcher.refuseWith(errors.New("no such binary"))
		h.advance(400 * time.Millisecond)
		if got := h.status().GetMessage(); got != "no such binary" {
			t.Errorf("message is %q", got)
		}
		h.launcher.refuseWith(nil)
		h.advance(800 * time.Millisecond)
		h.want(starting)
		h.wantConfig(3)
	})
}

func TestFilesOfThePlanBeforeAreRemoved(t *testing.T) {
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Files = append(p.Files, plan.File{Path: filepath.Join(h.dirs.Config, "conf.d", "extra.conf"),
			Format: plan.FormatRedis, Mode: "0640"})
		h.mount(p)
		h.begin()
		extra := filepath.Join(h.dirs.Config, "conf.d", "*")
		if found, err := filepath.Glob(extra); err != nil || len(found) != 1 {
			t.Fatalf("files are %v, %v", found, err)
		}
		h.call(supervisor.Restart("restart", 0, h.plan(2)))
		h.settle()
		if found, err := filepath.Glob(extra); err != nil || len(found) != 0 {
			t.Errorf("files are %v, %v", found, err)
		}
	})
}

func TestSignalsToPID1AreForwardedAsDeclared(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.sup.Forward(syscall.SIGHUP)
		h.sup.Forward(syscall.SIGUSR2)
		h.sup.Forward(syscall.SIGUSR1)
		h.status()
		if got := h.launcher.last().got(); !slices.Equal(got, []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1}) {
			t.Errorf("signals are %v", got)
		}
	})
}

func TestEveryChangeIsAnnounced(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		status, changed := h.sup.Status()
		select {
		case <-changed:
			t.Fatal("announced without a change")
		default:
		}
		h.settle()
		select {
		case <-changed:
		default:
			t.Fatal("the change was not announced")
		}
		if status.GetState() != starting {
			t.Error("a status that was handed out was changed")
		}
	})
}
