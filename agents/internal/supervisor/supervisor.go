// SPDX-License-Identifier: Apache-2.0

// Package supervisor runs one process and keeps it as it is meant to be: up,
// restarted after a crash, stopped when it was told so. It is a state machine
// that one goroutine owns; states.md beside this file shows it. Each event has
// one method (events.go), each call one (calls.go).
package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/datalock"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// settleTime is how long a process must stay up until it counts as running: one
// that ends at once because of its configuration was not started.
const settleTime = 300 * time.Millisecond

// ErrShuttingDown refuses calls while PID 1 ends.
var ErrShuttingDown = errors.New("the process manager is shutting down")

// Process is a running process; *reaper.Process with LastWords is one.
type Process interface {
	PID() int
	Signal(syscall.Signal) error
	SignalGroup(syscall.Signal) error
	Done() <-chan struct{}
	Exit() reaper.Exit
	// LastWords is the line that it wrote last, once it has ended; empty for none. It may have secrets in it.
	LastWords() string
}

// Launcher starts what a plan describes.
type Launcher interface {
	// Start starts the process, which inherits the file when there is one.
	Start(p *planfile.Prepared, inherited *os.File) (Process, error)
	// Reload runs the reload command, with the arguments appended, to its end.
	Reload(ctx context.Context, p *planfile.Prepared, args ...string) error
	// Renew runs the command that has the process take over its certificate, to its end.
	Renew(ctx context.Context, p *planfile.Prepared) error
	// Hook runs the hook at a point, which the plan has, to its end.
	Hook(ctx context.Context, p *planfile.Prepared, point plan.HookPoint) error
	// Act runs an action to its end.
	Act(ctx context.Context, p *planfile.Prepared, a Act) error
}

// state of the process.
type state int

const (
	stopped state = iota
	starting
	running
	stopping
	backoff
	// waiting for another process manager to give back the data folder, or until the process may be started.
	waiting
)

var wireStates = map[state]agentv1.ProcessState{
	stopped:  agentv1.ProcessState_PROCESS_STATE_STOPPED,
	starting: agentv1.ProcessState_PROCESS_STATE_STARTING,
	running:  agentv1.ProcessState_PROCESS_STATE_RUNNING,
	stopping: agentv1.ProcessState_PROCESS_STATE_STOPPING,
	backoff:  agentv1.ProcessState_PROCESS_STATE_BACKOFF,
	waiting:  agentv1.ProcessState_PROCESS_STATE_STARTING,
}

// afterStop is what follows when a process that is being stopped has ended.
type afterStop int

const (
	stayStopped afterStop = iota
	startAgain
	leave
)

// Supervisor owns the process. Make it with New and run it with Run.
type Supervisor struct {
	dirs     planfile.Dirs
	launcher Launcher
	store    *callrecord.Store
	open     OpenMember
	log      *slog.Logger

	calls   chan request
	forward chan syscall.Signal
	ended   chan struct{}
	status  broadcast
	// membership is the member as others see it.
	membership atomic.Pointer[membership]

	// Everything below belongs to the goroutine of Run.

	state state
	// process is nil in stopped, backoff and waiting.
	process Process
	// prepared is what the process runs with, or ran with last; its files are written.
	prepared  *planfile.Prepared
	startedAt time.Time
	// message says what is wrong.
	message string
	// said are the last words of the process that ended by itself before.
	said string
	// failures in a row, for the delay.
	failures int
	// timer of the state: settling, stop timeout, backoff, the next look at the lock.
	timer *time.Timer
	// after is what follows stopping.
	after afterStop
	// next is the plan for the coming start; nil takes the current one.
	next *planfile.Prepared
	// pending is the key of the Start, Stop or Restart that is under way.
	pending string
	// reload is the reload that is under way.
	reload *reload
	// hooks that run beside the process.
	hooks hooks
	// effects are the dynamic settings as the process has them.
	effects effects
	// certificate that the process serves.
	certificate certificate
	// logs that the process writes to a volume.
	logs logs
	// fence is what the process may be, where that is the engine's to say.
	fence fence
	// roleChanges counts the steps of processes from one role to another.
	roleChanges int64
	// lock is on the data folder, from before the first start until the process is stopped.
	lock datalock.Lock
	// exitCode is what PID 1 ends with.
	exitCode int
}

// New makes a supervisor; nothing is started yet.
func New(dirs planfile.Dirs, launcher Launcher, store *callrecord.Store, open OpenMember,
	log *slog.Logger) *Supervisor {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	// Nobody may read that a process was stopped because it is not started yet.
	first := starting
	if store.State().Intent == callrecord.Stop {
		first = stopped
	}
	s := &Supervisor{dirs: dirs, launcher: launcher, store: store, open: open, log: log, timer: timer, state: first,
		calls: make(chan request), forward: make(chan syscall.Signal), ended: make(chan struct{})}
	s.hooks.ends = make(chan hookEnd)
	s.setMembership(nil, errNotYet)
	s.publish()
	return s
}

// Run starts the process unless it was stopped by a call, supervises it until the
// context ends, stops it gracefully, and returns the exit code: the process's own,
// 128 and the number of the signal that ended it, or 0 when there was none to stop.
func (s *Supervisor) Run(ctx context.Context) int {
	defer close(s.ended)
	defer s.lock.Release()
	defer s.leaveSet(ErrShuttingDown)
	defer s.timer.Stop()
	s.resume()
	shutdown := ctx.Done()
	for {
		s.publish()
		if s.state == stopped && s.after == leave {
			return s.exitCode
		}
		select {
		case r := <-s.calls:
			s.Enforce()
			r.reply <- s.onCall(r.call)
		case sig := <-s.forward:
			s.onForward(sig)
		case <-s.processDone():
			s.onExited(s.process.Exit())
		case how := <-s.reloadDone():
			s.onReloaded(how)
		case end := <-s.hooks.ends:
			s.onHookEnded(end)
		case <-s.certificateTick():
			s.onCertificateTick()
		case err := <-s.renewalDone():
			s.onRenewed(err)
		case <-s.logsTick():
			s.onLogsTick()
		case <-s.memberChanged():
			s.reconsider()
		case err := <-s.transitionEnded():
			s.onTransition(err)
		case <-s.transitionRetry():
			s.onTransitionRetry()
		case <-s.timer.C:
			s.onTimer()
		case <-shutdown:
			shutdown = nil
			s.onShutdown()
		}
	}
}

func (s *Supervisor) processDone() <-chan struct{} {
	if s.process == nil {
		return nil
	}
	return s.process.Done()
}

func (s *Supervisor) reloadDone() <-chan reloaded {
	if s.reload == nil {
		return nil
	}
	return s.reload.done
}

// Forward passes a signal that PID 1 got to the process when the plan allows it.
func (s *Supervisor) Forward(sig syscall.Signal) {
	select {
	case s.forward <- sig:
	case <-s.ended:
	}
}

// Status returns the present status, which must not be changed, and a channel
// that is closed when there is another one.
func (s *Supervisor) Status() (*agentv1.ProcessStatus, <-chan struct{}) {
	return s.status.get()
}

// publish makes the present state known when it differs from what is known.
func (s *Supervisor) publish() {
	record := s.store.State()
	status := &agentv1.ProcessStatus{
		State:    wireStates[s.state],
		Starts:   record.Starts,
		LastExit: record.LastExit,
		Message:  s.message,
		Term:     record.Term,
		Member:   s.memberReport(),

		RoleChanges: s.roleChanges,
	}
	if s.process != nil {
		status.Pid = int64(s.process.PID())
		status.StartedAtUnixMs = s.startedAt.UnixMilli()
		status.ConfigDigest, status.RestartDigest = s.digests()
		status.CertificateDigest = s.certificate.served
	} else if s.state == backoff && s.prepared != nil {
		// It will be started with this plan again, unless it is given another one.
		status.ConfigDigest, status.RestartDigest = s.prepared.Plan.Digest, s.prepared.Plan.RestartDigest
	}
	if last, called := s.store.Last(); called {
		status.LastCall = wireRecord(last)
	}
	s.status.set(status)
}

// broadcast is the latest status for many readers.
type broadcast struct {
	mu      sync.Mutex
	status  *agentv1.ProcessStatus
	changed chan struct{}
}

func (b *broadcast) set(status *agentv1.ProcessStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != nil && proto.Equal(b.status, status) {
		return
	}
	if b.changed != nil {
		close(b.changed)
	}
	b.status, b.changed = status, make(chan struct{})
}

func (b *broadcast) get() (*agentv1.ProcessStatus, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status, b.changed
}
