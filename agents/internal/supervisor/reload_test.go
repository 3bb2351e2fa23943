// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
)

func TestReloadByCommand(t *testing.T) {
	inPod(t, func(h *harness) {
		release := make(chan error)
		h.launcher.reload = func(context.Context, ...string) error { return <-release }
		h.begin()
		h.settle()
		h.call(supervisor.Reload("r", 0, h.plan(2)))
		h.wantConfig(2)
		h.wantOutcome("r", underWay, "")
		h.refused(supervisor.Reload("r2", 0, nil), supervisor.ErrBusy)
		if got := h.status().GetConfigDigest(); got != digest(1) {
			t.Errorf("digest is %s before the reload is done", got)
		}
		release <- nil
		h.wantOutcome("r", succeeded, "")
		if got := h.status(); got.GetConfigDigest() != digest(2) || got.GetPid() != 100 || got.GetStarts() != 1 {
			t.Errorf("status is %v", got)
		}
		h.end()
		h.begin()
		h.wantConfig(2)
	})
}

func TestReloadThatFailsRestoresTheFiles(t *testing.T) {
	inPod(t, func(h *harness) {
		h.launcher.reload = func(context.Context, ...string) error { return errors.New("exit code 1: bad directive") }
		h.begin()
		h.settle()
		h.call(supervisor.Reload("r", 0, h.plan(2)))
		h.wantOutcome("r", failed, "bad directive")
		h.wantConfig(1)
		if got := h.status(); got.GetConfigDigest() != digest(1) || got.GetState() != running {
			t.Errorf("status is %v", got)
		}
		h.end()
		h.begin()
		h.wantConfig(1)
	})
}

func TestReloadBySignal(t *testing.T) {
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.Process.Reload = &plan.Reload{Signal: "SIGHUP"}
		h.mount(p)
		h.begin()
		h.settle()
		next := h.plan(2)
		next.Process.Reload = p.Process.Reload
		h.call(supervisor.Reload("r", 0, next))
		h.wantOutcome("r", succeeded, "")
		h.wantConfig(2)
		if got := h.launcher.last().got(); !slices.Equal(got, []syscall.Signal{syscall.SIGHUP}) {
			t.Errorf("signals are %v", got)
		}
	})
}

func TestReloadThatNeedsARestartSaysSo(t *testing.T) {
	inPod(t, func(h *harness) {
		h.begin()
		h.settle()
		changed, without, old := h.plan(2), h.plan(2), h.plan(2)
		changed.RestartDigest = digest(1001)
		without.Process.Reload = nil
		old.RestartDigest = ""
		for key, test := range map[string]struct {
			plan    *plan.Plan
			message string
		}{
			"changed":        {changed, "changes more than dynamic settings; use Restart"},
			"without":        {without, "declares no reload; use Restart"},
			"without digest": {old, "changes more than dynamic settings"},
		} {
			h.call(supervisor.Reload(key, 0, test.plan))
			h.wantRestartRequired(key, test.message)
		}
		if got := h.status(); got.GetPid() != 100 || got.GetConfigDigest() != digest(1) ||
			got.GetRestartDigest() != digest(1000) {
			t.Errorf("status is %v", got)
		}
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.call(supervisor.Reload("down", 0, nil))
		h.wantRestartRequired("down", "does not stay up")
		h.wantConfig(1)
		h.call(supervisor.Stop("stop", 0))
		h.call(supervisor.Reload("stopped", 0, nil))
		h.wantOutcome("stopped", failed, "the process is not running: PROCESS_STATE_STOPPED; use Start or Restart")
		// A restart would start what was stopped on purpose.
		if got := h.status().GetLastCall().GetReason(); got != "" {
			t.Errorf("reason is %q", got)
		}
		// Nothing of that is the plan of the next container.
		h.call(supervisor.Start("start", 0))
		h.wantConfig(1)
	})
}

func TestPlanWithoutRestartDigestNeedsARestart(t *testing.T) {
	inPod(t, func(h *harness) {
		p := h.plan(1)
		p.RestartDigest = ""
		h.mount(p)
		h.begin()
		h.settle()
		h.call(supervisor.Reload("r", 0, nil))
		h.wantRestartRequired("r", "use Restart")
	})
}

func TestReloadEndsWithTheProcess(t *testing.T) {
	for name, end := range map[string]func(*harness){
		"crash":    func(h *harness) { h.launcher.last().end(reaper.Exit{Code: 1}) },
		"stop":     func(h *harness) { h.call(supervisor.Stop("stop", 0)) },
		"restart":  func(h *harness) { h.call(supervisor.Restart("restart", 0, nil)) },
		"shutdown": func(h *harness) { h.end() },
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(h *harness) {
				canceled := make(chan struct{})
				h.launcher.reload = func(ctx context.Context, _ ...string) error {
					<-ctx.Done()
					close(canceled)
					return ctx.Err()
				}
				h.begin()
				h.settle()
				h.call(supervisor.Reload("r", 0, h.plan(2)))
				end(h)
				<-canceled
				if h.shutdown == nil {
					h.begin()
				}
				h.settle()
				if record := h.call(supervisor.Reload("r", 0, nil)); record.GetPhase() != failed || record.GetMessage() == "" {
					t.Errorf("record is %v", record)
				}
				h.wantConfig(1)
			})
		})
	}
}

// wantRestartRequired: the call failed, and a machine can tell what to do.
func (h *harness) wantRestartRequired(key, message string) {
	h.Helper()
	h.wantOutcome(key, failed, message)
	if got := h.status().GetLastCall().GetReason(); got != report.ReasonRestartRequired {
		h.Errorf("call %q: reason is %q", key, got)
	}
}

// server is a process with dynamic settings: it takes what a reload command gives it, but for what it refuses.
type server struct {
	*harness
	given   []string
	refuses map[string]error
}

// withEach runs a test in a pod whose process is told each changed setting.
func withEach(t *testing.T, test func(s *server)) {
	t.Helper()
	inPod(t, func(h *harness) {
		s := &server{harness: h, refuses: map[string]error{}}
		h.launcher.reload = func(_ context.Context, args ...string) error {
			if err := s.refuses[args[0]]; err != nil {
				return err
			}
			s.given = append(s.given, strings.Join(args, "="))
			return nil
		}
		h.mount(s.settings(1, "a", "1", "b", "1"))
		h.begin()
		h.settle()
		test(s)
	})
}

// settings is a plan with these dynamic settings, beside the static password.
func (s *server) settings(number int, keysAndValues ...string) *plan.Plan {
	p := s.plan(number)
	p.Process.Reload = &plan.Reload{Each: []string{"set"}}
	entries := p.Files[0].Entries[1:]
	for pair := range slices.Chunk(keysAndValues, 2) {
		entries = append(entries, plan.Entry{Key: pair[0], Args: strings.Fields(pair[1]), Dynamic: true})
	}
	p.Files[0].Entries = entries
	return p
}

func (s *server) reload(key string, p *plan.Plan) {
	s.Helper()
	s.given = nil
	s.call(supervisor.Reload(key, 0, p))
	s.status()
}

// wants checks what the process was told by the last reload, and which digest it has.
func (s *server) wants(digest string, given ...string) {
	s.Helper()
	if !slices.Equal(s.given, given) {
		s.Errorf("the process was told %q, want %q", s.given, given)
	}
	if got := s.status(); got.GetConfigDigest() != digest || got.GetRestartDigest() != s.plan(1).RestartDigest ||
		got.GetPid() != 100 {
		s.Errorf("status is %v, want digest %s", got, digest)
	}
}

func (s *server) wantFile(lines ...string) {
	s.Helper()
	want := "requirepass hunter2\n" + strings.Join(lines, "\n") + "\n"
	if got := s.config(); got != want {
		s.Errorf("the file has %q, want %q", got, want)
	}
}

func TestEachTellsWhatWasAddedOrChanged(t *testing.T) {
	withEach(t, func(s *server) {
		s.reload("same", s.settings(2, "a", "1", "b", "1"))
		s.wantOutcome("same", succeeded, "")
		s.wants(digest(2))
		s.reload("order", s.settings(3, "b", "1", "a", "1"))
		s.wants(digest(3))
		s.reload("changed", s.settings(4, "a", "1 2 3", "b", "1", "c", "9"))
		s.wantOutcome("changed", succeeded, "")
		s.wants(digest(4), "a=1 2 3", "c=9")
		s.wantFile("a 1 2 3", "b 1", "c 9")
		// After a crash the process starts from the files, and has all of it.
		s.launcher.last().end(reaper.Exit{Code: -1, Signal: syscall.SIGKILL})
		s.settle()
		s.wantFile("a 1 2 3", "b 1", "c 9")
		if got := s.status(); got.GetConfigDigest() != digest(4) || got.GetRestartDigest() != digest(1000) {
			t.Errorf("status is %v", got)
		}
		s.reload("after the crash", s.settings(5, "a", "1 2 3", "b", "1", "c", "9"))
		if len(s.given) != 0 {
			t.Errorf("the process was told %q", s.given)
		}
		// So does the next container, although the mounted plan lags.
		s.end()
		s.begin()
		s.wantFile("a 1 2 3", "b 1", "c 9")
	})
}

func TestEachTellsSecretsAndPodTexts(t *testing.T) {
	withEach(t, func(s *server) {
		p := s.settings(2, "a", "1", "b", "1", "announce", "${pod.name}.x")
		p.Files[0].Entries[1] = plan.Entry{Key: "a", Secret: &plan.SecretRef{Credential: "default", Key: "password"},
			Dynamic: true}
		s.reload("r", p)
		s.wants(digest(2), "a=hunter2", "announce=server-0.x")
		s.secret("rotated")
		s.reload("rotated", p)
		s.wants(digest(2), "a=rotated")
	})
}

func TestEachThatFailsHalfWayGoesOnFromThere(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["b"] = errors.New("exit code 1: out of range")
		s.reload("r1", s.settings(2, "a", "2", "b", "2", "c", "2"))
		s.wantOutcome("r1", failed, `setting "b": exit code 1: out of range`)
		s.wants(report.DigestMixed, "a=2")
		// A crash would bring back what worked.
		s.wantFile("a 1", "b 1")
		s.reload("r2", s.settings(2, "a", "2", "b", "2", "c", "2"))
		s.wantOutcome("r2", failed, "out of range")
		s.wants(report.DigestMixed)
		delete(s.refuses, "b")
		s.reload("r3", s.settings(2, "a", "2", "b", "2", "c", "2"))
		s.wantOutcome("r3", succeeded, "")
		s.wants(digest(2), "b=2", "c=2")
		s.wantFile("a 2", "b 2", "c 2")
	})
}

func TestEachThatFailedCanBeTakenBack(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["c"] = errors.New("exit code 1: unknown parameter")
		s.reload("r1", s.settings(2, "a", "2", "b", "1", "c", "2"))
		s.wants(report.DigestMixed, "a=2")
		// What was refused and is new is not there, so that nothing must be undone for it.
		s.reload("r2", s.settings(1, "a", "1", "b", "1"))
		s.wantOutcome("r2", succeeded, "")
		s.wants(digest(1), "a=1")
	})
}

func TestEachThatFailedIsToldTheValueOfBeforeToo(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["b"] = fmt.Errorf("%w of 10s", command.ErrTimeout)
		s.reload("r1", s.settings(2, "a", "1", "b", "2"))
		s.wants(report.DigestMixed)
		// The command may have done its work before it was killed.
		delete(s.refuses, "b")
		s.reload("r2", s.settings(1, "a", "1", "b", "1"))
		s.wantOutcome("r2", succeeded, "")
		s.wants(digest(1), "b=1")
	})
}

func TestEachThatWasRefusedAloneChangesNothing(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["c"] = errors.New("exit code 1: unknown parameter")
		s.reload("r", s.settings(2, "a", "1", "b", "1", "c", "2"))
		s.wantOutcome("r", failed, "unknown parameter")
		s.wants(digest(1))
	})
}

func TestEachOfWhichNobodyKnowsTheOutcomeNeedsARestartToBeTakenBack(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["c"] = fmt.Errorf("%w of 10s", command.ErrTimeout)
		s.reload("r1", s.settings(2, "a", "1", "b", "1", "c", "2"))
		s.wants(report.DigestMixed)
		s.reload("r2", s.settings(1, "a", "1", "b", "1"))
		s.wantRestartRequired("r2", `setting "c" is gone`)
		s.call(supervisor.Restart("restart", 0, s.settings(1, "a", "1", "b", "1")))
		s.settle()
		if got := s.status().GetConfigDigest(); got != digest(1) {
			t.Errorf("digest is %s", got)
		}
	})
}

// initially is a plan that says what the process has without b and c.
func (s *server) initially(number int, keysAndValues ...string) *plan.Plan {
	p := s.settings(number, keysAndValues...)
	p.Process.Reload.ResetValues = map[string]string{"b": "0", "c": ""}
	return p
}

func TestEachThatIsGoneGetsWhatIsThereWithoutIt(t *testing.T) {
	withEach(t, func(s *server) {
		s.reload("gone", s.initially(2, "a", "2"))
		s.wantOutcome("gone", succeeded, "")
		s.wants(digest(2), "b=0", "a=2")
		s.wantFile("a 2")
		s.reload("again", s.initially(2, "a", "2"))
		s.wants(digest(2))
		s.reload("back", s.initially(3, "a", "2", "b", "3", "c", "3"))
		s.wants(digest(3), "b=3", "c=3")
		s.reload("both", s.initially(4, "a", "2"))
		s.wantOutcome("both", succeeded, "")
		s.wants(digest(4), "b=0", "c=")
		// What no one knows the value of without it still takes a restart, and nothing is touched before.
		s.reload("a", s.initially(5, "b", "1"))
		s.wantRestartRequired("a", `setting "a" is gone from file`)
		s.wants(digest(4))
		s.wantFile("a 2")
	})
}

func TestEachThatIsGoneAndRefusedIsToldAgain(t *testing.T) {
	withEach(t, func(s *server) {
		s.refuses["b"] = errors.New("exit code 1: busy")
		s.reload("r1", s.initially(2, "a", "2"))
		s.wantOutcome("r1", failed, `setting "b": exit code 1: busy`)
		s.wants(report.DigestMixed)
		s.wantFile("a 1", "b 1")
		delete(s.refuses, "b")
		s.reload("r2", s.initially(2, "a", "2"))
		s.wantOutcome("r2", succeeded, "")
		s.wants(digest(2), "b=0", "a=2")
		// A new one whose command was cut short may have been taken, and goes back as well.
		s.refuses["c"] = fmt.Errorf("%w of 10s", command.ErrTimeout)
		s.reload("r3", s.initially(3, "a", "2", "c", "2"))
		s.wants(report.DigestMixed)
		delete(s.refuses, "c")
		s.reload("r4", s.initially(2, "a", "2"))
		s.wants(digest(2), "c=")
	})
}

func TestEachTouchesNothingWhenARestartIsNeeded(t *testing.T) {
	withEach(t, func(s *server) {
		elsewhere := s.settings(2, "a", "2", "b", "1")
		elsewhere.Files = append(elsewhere.Files,
			plan.File{Path: filepath.Join(s.dirs.Config, "other.conf"), Format: plan.FormatRedis,
				Entries: elsewhere.Files[0].Entries[2:]})
		elsewhere.Files[0].Entries = elsewhere.Files[0].Entries[:2]
		for key, test := range map[string]struct {
			plan    *plan.Plan
			message string
		}{
			"gone":      {s.settings(2, "a", "2"), `setting "b" is gone from file`},
			"elsewhere": {elsewhere, `setting "b" is gone from file`},
			"twice":     {s.settings(2, "a", "2", "a", "3", "b", "1"), `setting "a" is more than once`},
		} {
			s.reload(key, test.plan)
			s.wantRestartRequired(key, test.message)
			s.wants(digest(1))
			s.wantFile("a 1", "b 1")
		}
	})
}

func TestPlanOfAReloadThatCannotBeKeptIsTriedAgain(t *testing.T) {
	withEach(t, func(s *server) {
		// A folder in the place of the file keeps it from being written.
		pushed := filepath.Join(s.dirs.Run, "pushed-plan.json")
		if err := os.MkdirAll(filepath.Join(pushed, "full"), 0o750); err != nil {
			t.Fatal(err)
		}
		s.reload("r1", s.settings(2, "a", "2", "b", "1"))
		s.wantOutcome("r1", failed, "pushed-plan.json")
		s.wants(report.DigestMixed, "a=2")
		s.wantFile("a 1", "b 1")
		if err := os.RemoveAll(pushed); err != nil {
			t.Fatal(err)
		}
		s.reload("r2", s.settings(2, "a", "2", "b", "1"))
		s.wantOutcome("r2", succeeded, "")
		s.wants(digest(2))
		s.wantFile("a 2", "b 1")
	})
}
