// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killAgain is the interval of further kills of a process that did not end: its group may have got new processes.
const killAgain = 100 * time.Millisecond

// ErrNoPermission says that there is no valid write lease.
var ErrNoPermission = errors.New("there is no valid write lease")

// Process is a process that may run as the primary, such as *reaper.Process.
type Process interface {
	PID() int
	SignalGroup(syscall.Signal) error
	Done() <-chan struct{}
}

// Guard kills a primary at the end of its write lease: SIGKILL for its process group, without a graceful shutdown,
// during which open sessions would go on writing. It is safe for concurrent use.
type Guard struct {
	log   *slog.Logger
	alarm *alarm
	// sentinel is nil where this program is not PID 1.
	sentinel *Sentinel

	mu sync.Mutex
	// backstop is when the sentinel is to kill; 0 for never.
	backstop time.Duration
	// until is the end of the write lease.
	until time.Duration
	// primary is the process that runs as the primary, also one that was killed and has not ended; nil for none.
	primary Process
	// killed says that the primary was killed, and killedAt when.
	killed   bool
	killedAt time.Duration
	// fenced is the last process that outlived its write lease.
	fenced Process
}

// NewGuard returns a guard without a write lease. The sentinel may be nil. Close ends both.
func NewGuard(sentinel *Sentinel, log *slog.Logger) (*Guard, error) {
	ring, err := newAlarm(unix.TFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	g := &Guard{log: log, alarm: ring, sentinel: sentinel}
	go func() {
		for ring.wait() == nil {
			g.Check()
		}
	}()
	return g, nil
}

// Close ends the guard and kills a running primary.
func (g *Guard) Close() {
	g.Set(0)
	g.alarm.close()
	if g.sentinel != nil {
		g.sentinel.Close()
	}
}

// Set changes the end of the write lease. If that has passed, the primary is killed before Set returns.
func (g *Guard) Set(until time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = until
	g.check()
}

// Check says whether the write lease is valid. If it is not, the primary was sent SIGKILL when Check returns. Code that
// may have been suspended calls it first.
func (g *Guard) Check() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check()
}

// check is called with the lock.
func (g *Guard) check() bool {
	holds := Boottime() < g.until
	g.dropEnded()
	if g.primary == nil {
		return holds
	}
	next, backstop := g.until, g.until+grace
	if !holds {
		g.kill()
		next, backstop = Boottime()+killAgain, g.killedAt+grace
	}
	if err := errors.Join(g.alarm.set(next), g.setBackstop(backstop)); err != nil {
		// A primary whose lease cannot be watched must not run.
		g.kill()
		g.log.Error("the process is killed: cannot watch its write lease", "error", err.Error())
		return false
	}
	return holds
}

// setBackstop arms the sentinel for a time; 0 disarms it.
func (g *Guard) setBackstop(at time.Duration) error {
	if g.sentinel == nil || at == g.backstop {
		return nil
	}
	g.backstop = at
	if at == 0 {
		return g.sentinel.disarm()
	}
	return g.sentinel.set(at)
}

func (g *Guard) kill() {
	// A process that has ended meanwhile is the goal; after any other error the kill is repeated.
	_ = g.primary.SignalGroup(syscall.SIGKILL)
	g.fenced = g.primary
	if !g.killed {
		g.killed, g.killedAt = true, Boottime()
		g.log.Warn("killing the primary: its write lease has expired", "pid", g.primary.PID())
	}
}

// dropEnded drops a primary that has ended, and disarms the sentinel.
func (g *Guard) dropEnded() {
	if g.primary == nil {
		return
	}
	select {
	case <-g.primary.Done():
	default:
		return
	}
	if Boottime() >= g.until {
		// The sentinel may have been first.
		g.fenced = g.primary
	}
	g.primary, g.killed = nil, false
	g.disarmSentinel()
}

// disarmSentinel disarms the sentinel.
func (g *Guard) disarmSentinel() {
	if err := g.setBackstop(0); err != nil {
		g.log.Error("cannot tell the sentinel that no primary runs", "error", err.Error())
	}
}

// Start starts a primary if the write lease is valid.
func (g *Guard) Start(start func() (Process, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.check() {
		return ErrNoPermission
	}
	// Starting a program can take longer than the lease, and the lock is held meanwhile: the sentinel watches.
	if err := g.setBackstop(g.until + grace); err != nil {
		return fmt.Errorf("cannot watch the write lease: %w", err)
	}
	process, err := start()
	if err != nil {
		g.disarmSentinel()
		return err
	}
	g.primary, g.killed = process, false
	g.check()
	return nil
}

// Adopt makes a process that runs as a replica the primary, if the write lease is valid.
func (g *Guard) Adopt(p Process) error {
	return g.Start(func() (Process, error) { return p, nil })
}

// Writing says whether a process runs as the primary, also one that was killed and has not ended.
func (g *Guard) Writing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropEnded()
	return g.primary != nil
}

// Killed says whether the process is the last primary that was killed at the end of its write lease.
func (g *Guard) Killed(p Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fenced == p
}

// AwaitEnd waits until a killed primary has ended.
func (g *Guard) AwaitEnd(ctx context.Context) error {
	g.mu.Lock()
	g.check()
	primary, killed := g.primary, g.killed
	g.mu.Unlock()
	if primary == nil || !killed {
		return nil
	}
	select {
	case <-primary.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process %d was killed and has not ended yet: %w", primary.PID(), ctx.Err())
	}
}
