// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// script runs hooks as a test says. A hook ends when the test has it end, or when it is killed and the test lets it go.
type script struct {
	mu     sync.Mutex
	begun  []plan.HookPoint
	killed []plan.HookPoint
	end    chan error
	// lingers has one that is killed last until the channel is closed; nil for none.
	lingers chan struct{}
}

func (s *script) run(ctx context.Context, point plan.HookPoint) error {
	s.mu.Lock()
	s.begun = append(s.begun, point)
	lingers := s.lingers
	s.mu.Unlock()
	select {
	case err := <-s.end:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.killed = append(s.killed, point)
	s.mu.Unlock()
	if lingers != nil {
		<-lingers
	}
	return ctx.Err()
}

// stay has those that are begun from now on last longer than they are wanted, until the returned function is called.
func (s *script) stay() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lingers := make(chan struct{})
	s.lingers = lingers
	return func() { close(lingers) }
}

func (s *script) wants(h *harness, begun, killed []plan.HookPoint) {
	h.Helper()
	h.status()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.begun, begun) || !slices.Equal(s.killed, killed) {
		h.Errorf("begun are %v, want %v; killed are %v, want %v", s.begun, begun, s.killed, killed)
	}
}

// withHooks runs a test in a pod whose plan has hooks at the points.
func withHooks(t *testing.T, points []plan.HookPoint, test func(h *harness, s *script)) {
	t.Helper()
	inPod(t, func(h *harness) {
		s := &script{end: make(chan error)}
		h.launcher.hook = s.run
		p := h.plan(1)
		p.Process.Hooks = &plan.Hooks{}
		for point, hook := range map[plan.HookPoint]**plan.Hook{plan.PreStart: &p.Process.Hooks.PreStart,
			plan.PostStart: &p.Process.Hooks.PostStart, plan.PreStop: &p.Process.Hooks.PreStop} {
			if slices.Contains(points, point) {
				*hook = &plan.Hook{Command: []string{string(point)}}
			}
		}
		h.mount(p)
		test(h, s)
	})
}

var (
	preStart  = []plan.HookPoint{plan.PreStart}
	postStart = []plan.HookPoint{plan.PostStart}
	preStop   = []plan.HookPoint{plan.PreStop}
)

func TestTheProcessStartsOnceItsHookHasSucceeded(t *testing.T) {
	withHooks(t, preStart, func(h *harness, s *script) {
		h.begin()
		h.advance(time.Minute)
		h.want(starting)
		h.wantConfig(1)
		if got := h.status(); got.GetPid() != 0 || !strings.Contains(got.GetMessage(), "hook preStart runs") ||
			h.launcher.count() != 0 {
			t.Errorf("the status is %v after %d starts", got, h.launcher.count())
		}
		s.end <- nil
		h.settle()
		h.want(running)
		if got := h.status(); got.GetMessage() != "" || got.GetStarts() != 1 {
			t.Errorf("the status is %v", got)
		}
		s.wants(h, preStart, nil)
	})
}

func TestAHookThatFailsKeepsTheProcessDown(t *testing.T) {
	withHooks(t, preStart, func(h *harness, s *script) {
		h.begin()
		h.call(supervisor.Restart("again", 1, nil))
		h.status()
		s.end <- errors.New("exit code 3: no space")
		h.wantOutcome("again", failed, "hook preStart: exit code 3: no space")
		h.want(backoff)
		if got := h.status(); got.GetMessage() != "hook preStart: exit code 3: no space" || got.GetStarts() != 0 {
			t.Errorf("the status is %v", got)
		}
		h.advance(200 * time.Millisecond)
		h.want(starting)
		s.end <- nil
		h.settle()
		h.want(running)
	})
}

// TestAStartWhileItsHookRunsIsSettledByThat, and not before: nothing has been started yet.
func TestAStartWhileItsHookRunsIsSettledByThat(t *testing.T) {
	withHooks(t, preStart, func(h *harness, s *script) {
		h.begin()
		h.call(supervisor.Start("first", 1))
		h.wantOutcome("first", underWay, "")
		s.end <- errors.New("exit code 3: no space")
		h.wantOutcome("first", failed, "hook preStart: exit code 3: no space")
		h.advance(200 * time.Millisecond)
		h.want(starting)
		h.call(supervisor.Start("second", 1))
		s.wants(h, []plan.HookPoint{plan.PreStart, plan.PreStart}, nil)
		s.end <- nil
		h.settle()
		h.want(running)
		h.wantOutcome("second", succeeded, "")
	})
}

// TestNothingStartsBesideAHookThatIsNotWanted: who stops, or restarts with another plan, has the hook killed, and it
// has ended before the next one begins.
func TestNothingStartsBesideAHookThatIsNotWanted(t *testing.T) {
	withHooks(t, preStart, func(h *harness, s *script) {
		leave := s.stay()
		h.begin()
		h.call(supervisor.Stop("stop", 1))
		h.wantOutcome("stop", succeeded, "")
		h.want(stopped)
		s.wants(h, preStart, preStart)
		h.call(supervisor.Start("start", 1))
		h.advance(time.Minute)
		h.want(starting)
		s.wants(h, preStart, preStart)
		s.mu.Lock()
		s.lingers = nil
		s.mu.Unlock()
		leave()
		s.wants(h, []plan.HookPoint{plan.PreStart, plan.PreStart}, preStart)
		s.end <- nil
		h.settle()
		h.wantOutcome("start", succeeded, "")
		h.want(running)
	})
}

func TestAHookThatRunsIsKilledWithItsContainer(t *testing.T) {
	withHooks(t, preStart, func(h *harness, s *script) {
		h.begin()
		if code := h.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		s.wants(h, preStart, preStart)
	})
}

func TestAHookAfterTheStartStopsNothing(t *testing.T) {
	withHooks(t, postStart, func(h *harness, s *script) {
		h.begin()
		s.wants(h, nil, nil)
		h.settle()
		s.wants(h, postStart, nil)
		h.want(running)
		s.end <- errors.New("exit code 1: nobody listens")
		h.advance(time.Minute)
		h.want(running)
		if got := h.status(); got.GetMessage() != "hook postStart: exit code 1: nobody listens" || got.GetStarts() != 1 {
			t.Errorf("the status is %v", got)
		}
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.advance(time.Second)
		h.want(running)
		if got := h.status(); got.GetMessage() != "" || got.GetStarts() != 2 {
			t.Errorf("the status is %v", got)
		}
		// The one of a process that is gone is not waited for, and the next process has its own.
		h.launcher.last().end(reaper.Exit{Code: 1})
		h.advance(5 * time.Second)
		h.want(running)
		s.wants(h, []plan.HookPoint{plan.PostStart, plan.PostStart, plan.PostStart}, postStart)
		s.end <- nil
	})
}

// A pod that ends has a grace period, in which the process has its time to stop, whatever the hook waits for. That one
// runs already makes no difference.
func TestAHookIsCutShortWhereThePodEnds(t *testing.T) {
	for name, before := range map[string]func(h *harness){
		"at once":          func(*harness) {},
		"during a restart": func(h *harness) { h.call(supervisor.Restart("restart", 1, nil)); h.advance(20 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(h *harness) {
				s := &script{end: make(chan error)}
				h.launcher.hook = s.run
				p := h.plan(1)
				p.Process.Hooks = &plan.Hooks{PreStop: &plan.Hook{Command: []string{"preStop"}, TimeoutSeconds: 1800}}
				h.mount(p)
				h.begin()
				h.settle()
				process := h.launcher.last()
				before(h)
				h.shutdown()
				h.advance((plan.MaxPodHookSeconds - 1) * time.Second)
				h.want(stopping)
				if got := process.got(); len(got) != 0 {
					t.Errorf("the process got %v before the time of the hook was over", got)
				}
				h.advance(2 * time.Second)
				if code := <-h.code; code != 0 || !slices.Equal(process.got(), []syscall.Signal{syscall.SIGTERM}) {
					t.Errorf("exit code %d, and the process got %v", code, process.got())
				}
				h.shutdown = nil
				s.wants(h, preStop, preStop)
			})
		})
	}
}

func TestAHookBeforeTheStopHasATimeOfItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		took time.Duration
		want []syscall.Signal
	}{
		"it succeeds":          {nil, 5 * time.Second, []syscall.Signal{syscall.SIGTERM}},
		"it fails":             {errors.New("exit code 1"), 5 * time.Second, []syscall.Signal{syscall.SIGTERM}},
		"longer than the stop": {nil, 39 * time.Second, []syscall.Signal{syscall.SIGTERM}},
	} {
		t.Run(name, func(t *testing.T) {
			withHooks(t, preStop, func(h *harness, s *script) {
				h.begin()
				h.settle()
				process := h.launcher.last()
				h.call(supervisor.Stop("stop", 1))
				h.advance(test.took)
				h.want(stopping)
				if got := process.got(); len(got) != 0 {
					t.Errorf("the process got %v before the hook had ended", got)
				}
				s.end <- test.err
				h.want(stopped)
				h.wantOutcome("stop", succeeded, "")
				if got := process.got(); !slices.Equal(got, test.want) {
					t.Errorf("the process got %v, want %v", got, test.want)
				}
				s.wants(h, preStop, nil)
			})
		})
	}
}

func TestAHookThatHangsDoesNotKeepAProcessFromItsEnd(t *testing.T) {
	withHooks(t, preStop, func(h *harness, s *script) {
		h.begin()
		h.settle()
		process := h.launcher.last()
		h.call(supervisor.Restart("restart", 1, nil))
		h.advance(39 * time.Second)
		h.want(stopping)
		h.advance(2 * time.Second)
		h.want(running)
		if got := process.Exit(); got.Signal != syscall.SIGKILL || len(process.got()) != 0 {
			t.Errorf("the process ended with %v and got %v", got, process.got())
		}
		s.wants(h, preStop, preStop)
	})
}

func TestAProcessHasItsTimeAfterTheHook(t *testing.T) {
	withHooks(t, preStop, func(h *harness, s *script) {
		h.launcher.ignores = map[syscall.Signal]bool{syscall.SIGTERM: true}
		h.begin()
		h.settle()
		process := h.launcher.last()
		h.call(supervisor.Restart("restart", 1, nil))
		h.advance(20 * time.Second)
		s.end <- nil
		h.want(stopping)
		h.advance(29 * time.Second)
		h.want(stopping)
		h.advance(2 * time.Second)
		h.want(running)
		if got := process.Exit(); got.Signal != syscall.SIGKILL {
			t.Errorf("the process ended with %v and got %v", got, process.got())
		}
		s.wants(h, preStop, nil)
	})
}

func TestAProcessThatEndsBeforeItsStopIsDone(t *testing.T) {
	withHooks(t, preStop, func(h *harness, s *script) {
		h.begin()
		h.settle()
		h.call(supervisor.Stop("stop", 1))
		h.status()
		h.launcher.last().end(reaper.Exit{})
		h.want(stopped)
		h.wantOutcome("stop", succeeded, "")
		s.wants(h, preStop, preStop)
	})
}

func TestAHookBeforeTheStopIsRunWhenTheContainerEnds(t *testing.T) {
	withHooks(t, preStop, func(h *harness, s *script) {
		h.begin()
		h.settle()
		h.shutdown()
		h.want(stopping)
		s.end <- nil
		if code := <-h.code; code != 0 {
			t.Errorf("exit code %d", code)
		}
		h.shutdown = nil
		s.wants(h, preStop, nil)
	})
}
