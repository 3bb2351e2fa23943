// SPDX-License-Identifier: Apache-2.0

package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/agents/internal/supervisor"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Short names of the states.
const (
	starting = agentv1.ProcessState_PROCESS_STATE_STARTING
	running  = agentv1.ProcessState_PROCESS_STATE_RUNNING
	stopping = agentv1.ProcessState_PROCESS_STATE_STOPPING
	stopped  = agentv1.ProcessState_PROCESS_STATE_STOPPED
	backoff  = agentv1.ProcessState_PROCESS_STATE_BACKOFF

	underWay  = agentv1.CallPhase_CALL_PHASE_RUNNING
	succeeded = agentv1.CallPhase_CALL_PHASE_SUCCEEDED
	failed    = agentv1.CallPhase_CALL_PHASE_FAILED
)

// process stands for a real one, with a clock that the test drives. Real ones are tested in cmd/agent.
type process struct {
	pid     int
	plan    *planfile.Prepared
	done    chan struct{}
	once    sync.Once
	exit    reaper.Exit
	ignores map[syscall.Signal]bool
	// words that it wrote last.
	words string

	mu      sync.Mutex
	signals []syscall.Signal
}

func (p *process) PID() int              { return p.pid }
func (p *process) Done() <-chan struct{} { return p.done }

// LastWords implements supervisor.Process.
func (p *process) LastWords() string { return p.words }

func (p *process) Exit() reaper.Exit {
	<-p.done
	return p.exit
}

func (p *process) end(exit reaper.Exit) {
	p.once.Do(func() {
		p.exit = exit
		close(p.done)
	})
}

// Signal ends the process with code 0 on a signal that stops, unless it ignores that.
func (p *process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	p.signals = append(p.signals, sig)
	p.mu.Unlock()
	select {
	case <-p.done:
		return reaper.ErrEnded
	default:
	}
	if (sig == syscall.SIGTERM || sig == syscall.SIGINT) && !p.ignores[sig] {
		p.end(reaper.Exit{})
	}
	return nil
}

func (p *process) SignalGroup(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		p.end(reaper.Exit{Code: -1, Signal: sig})
	}
	return nil
}

func (p *process) got() []syscall.Signal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]syscall.Signal(nil), p.signals...)
}

// launcher makes processes.
type launcher struct {
	mu      sync.Mutex
	started []*process
	refuse  error
	ignores map[syscall.Signal]bool
	reload  func(ctx context.Context, args ...string) error
	hook    func(ctx context.Context, point plan.HookPoint) error
	// inherited is whether the last process got the lock.
	inherited bool
}

func (l *launcher) Start(p *planfile.Prepared, inherited *os.File) (supervisor.Process, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	made := &process{pid: 100 + len(l.started), plan: p, done: make(chan struct{}), ignores: l.ignores}
	l.started = append(l.started, made)
	l.inherited = inherited != nil
	return made, nil
}

// refuseWith has the coming starts fail; nil ends that.
func (l *launcher) refuseWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

func (l *launcher) Reload(ctx context.Context, _ *planfile.Prepared, args ...string) error {
	return l.reload(ctx, args...)
}

// Renew implements supervisor.Launcher.
func (l *launcher) Renew(ctx context.Context, _ *planfile.Prepared) error { return l.reload(ctx) }

// Hook implements supervisor.Launcher.
func (l *launcher) Hook(ctx context.Context, _ *planfile.Prepared, point plan.HookPoint) error {
	return l.hook(ctx, point)
}

// Act implements supervisor.Launcher.
func (l *launcher) Act(ctx context.Context, _ *planfile.Prepared, a supervisor.Act) error {
	return l.reload(ctx, a.Action.Name)
}

func (l *launcher) last() *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started[len(l.started)-1]
}

func (l *launcher) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.started)
}

// harness is one container of a pod with a virtual clock.
type harness struct {
	*testing.T
	dirs     planfile.Dirs
	launcher *launcher
	sup      *supervisor.Supervisor
	shutdown context.CancelFunc
	code     chan int
}

// inPod runs a test in a pod whose folders are there and whose plan is mounted.
func inPod(t *testing.T, test func(h *harness)) {
	t.Helper()
	root := t.TempDir()
	dirs := planfile.Dirs{Plan: filepath.Join(root, "plan"), Config: filepath.Join(root, "config"),
		Run: filepath.Join(root, "run"), Secrets: filepath.Join(root, "secrets"), PodName: "server-0"}
	for _, dir := range []string{dirs.Plan, dirs.Config, dirs.Run, filepath.Join(dirs.Secrets, "default")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := &harness{T: t, dirs: dirs, launcher: &launcher{}}
		h.mount(h.plan(1))
		h.secret("hunter2")
		test(h)
		if h.shutdown != nil {
			h.end()
		}
	})
}

// plan returns a plan whose digest and configuration have the number.
func (h *harness) plan(number int) *plan.Plan {
	return &plan.Plan{
		Version:       1,
		Digest:        digest(number),
		RestartDigest: digest(1000),
		Process: plan.Process{
			Command: []string{"server"},
			Signals: []string{"SIGHUP", "SIGUSR1"},
			Reload:  &plan.Reload{Command: []string{"reload"}},
		},
		Files: []plan.File{{Path: filepath.Join(h.dirs.Config, "server.conf"), Format: plan.FormatRedis,
			Entries: []plan.Entry{
				{Key: "number", Args: []string{fmt.Sprint(number)}, Dynamic: true},
				{Key: "requirepass", Secret: &plan.SecretRef{Credential: "default", Key: "password"}},
			}}},
	}
}

func digest(number int) string { return fmt.Sprintf("sha256:%064x", number) }

func (h *harness) mount(p *plan.Plan) {
	h.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		h.Fatal(err)
	}
	h.write(filepath.Join(h.dirs.Plan, plan.PlanFile), string(data))
}

func (h *harness) secret(value string) {
	h.write(filepath.Join(h.dirs.Secrets, "default", "password"), value)
}

func (h *harness) write(path, content string) {
	h.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.Fatal(err)
	}
}

func (h *harness) remove(path string) {
	h.Helper()
	if err := os.Remove(path); err != nil {
		h.Fatal(err)
	}
}

// config is the content of the configuration file.
func (h *harness) config() string {
	h.Helper()
	data, err := os.ReadFile(filepath.Join(h.dirs.Config, "server.conf"))
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

func (h *harness) wantConfig(number int) {
	h.Helper()
	if got, want := h.config(), fmt.Sprintf("number %d\nrequirepass hunter2\n", number); got != want {
		h.Errorf("configuration is %q, want %q", got, want)
	}
}

// begin starts a container.
func (h *harness) begin() {
	h.Helper()
	store, err := callrecord.Open(h.dirs.Run)
	if err != nil {
		h.Fatal(err)
	}
	h.sup = supervisor.New(h.dirs, h.launcher, store, nil, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(h.Context())
	h.shutdown, h.code = cancel, make(chan int, 1)
	go func() { h.code <- h.sup.Run(ctx) }()
	synctest.Wait()
}

// end tells PID 1 to end and returns its exit code.
func (h *harness) end() int {
	h.shutdown()
	h.shutdown = nil
	return <-h.code
}

// advance moves the clock.
func (h *harness) advance(d time.Duration) {
	// The clock of the bubble is virtual: this moves it and waits for nothing real.
	time.Sleep(d)
	synctest.Wait()
}

// settle lets a process that was just started count as running.
func (h *harness) settle() { h.advance(time.Second) }

func (h *harness) status() *agentv1.ProcessStatus {
	synctest.Wait()
	status, _ := h.sup.Status()
	return status
}

func (h *harness) want(state agentv1.ProcessState) {
	h.Helper()
	if got := h.status().GetState(); got != state {
		h.Errorf("state is %v, want %v", got, state)
	}
}

// call makes a call that is recorded.
func (h *harness) call(call supervisor.Call) *agentv1.CallRecord {
	h.Helper()
	record, err := h.sup.Call(h.Context(), call)
	if err != nil {
		h.Fatal(err)
	}
	return record
}

// refused makes a call that must leave no record.
func (h *harness) refused(call supervisor.Call, want error) {
	h.Helper()
	before := h.status().GetLastCall()
	if record, err := h.sup.Call(h.Context(), call); !errors.Is(err, want) {
		h.Errorf("got %v, %v; want %v", record, err, want)
	}
	if after := h.status().GetLastCall(); after.GetIdempotencyKey() != before.GetIdempotencyKey() {
		h.Errorf("call %q was recorded", after.GetIdempotencyKey())
	}
}

// outcome returns the phase and the message of the latest call, which must have the key.
func (h *harness) outcome(key string) (agentv1.CallPhase, string) {
	h.Helper()
	last := h.status().GetLastCall()
	if last.GetIdempotencyKey() != key {
		h.Errorf("the latest call is %q, want %q", last.GetIdempotencyKey(), key)
	}
	return last.GetPhase(), last.GetMessage()
}

func (h *harness) wantOutcome(key string, phase agentv1.CallPhase, message string) {
	h.Helper()
	got, said := h.outcome(key)
	if got != phase || !strings.Contains(said, message) {
		h.Errorf("call %q is %v, %q; want %v, %q", key, got, said, phase, message)
	}
}
