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

// killAgain is how soon a process that did not end is killed again: one may have been started in its group meanwhile.
const killAgain = 100 * time.Millisecond

// ErrNoPermission says that no writer may run now.
var ErrNoPermission = errors.New("there is no permission to write now")

// Process is one that may run as the writer; *reaper.Process is one.
type Process interface {
	PID() int
	SignalGroup(syscall.Signal) error
	Done() <-chan struct{}
}

// Guard ends a writer at the end of its permission: SIGKILL for its whole process group, and no time to say goodbye, in
// which open sessions would write on. It is safe for concurrent use.
type Guard struct {
	log   *slog.Logger
	alarm *alarm
	// sentinel is nil where this program is not PID 1.
	sentinel *Sentinel

	mu sync.Mutex
	// backstop is when the sentinel is to kill; 0 for never.
	backstop time.Duration
	// until is the end of the permission.
	until time.Duration
	// writer runs as the writer, or was killed and has not ended yet; nil when none does.
	writer Process
	// killed says that it was, and killedAt when.
	killed   bool
	killedAt time.Duration
	// fenced is the last process that outlived its permission.
	fenced Process
}

// NewGuard returns one without a permission. It has a sentinel stand by unless that is nil. Close ends both.
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

// Close ends the guard. A writer that runs is killed.
func (g *Guard) Close() {
	g.Set(0)
	g.alarm.close()
	if g.sentinel != nil {
		g.sentinel.Close()
	}
}

// Set gives the permission another end. One that is over kills the writer before Set returns.
func (g *Guard) Set(until time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = until
	g.check()
}

// Check says whether the permission holds. Where it does not, the writer was sent SIGKILL when Check returns: whoever
// may have been stopped for a while calls it before anything else.
func (g *Guard) Check() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check()
}

// check is called with the lock.
func (g *Guard) check() bool {
	holds := Boottime() < g.until
	g.forget()
	if g.writer == nil {
		return holds
	}
	next, backstop := g.until, g.until+grace
	if !holds {
		g.kill()
		next, backstop = Boottime()+killAgain, g.killedAt+grace
	}
	if err := errors.Join(g.alarm.set(next), g.standBy(backstop)); err != nil {
		// A writer that nobody watches must not be.
		g.kill()
		g.log.Error("the process is killed: cannot watch its permission", "error", err.Error())
		return false
	}
	return holds
}

// standBy has the sentinel kill at a time; 0 for never.
func (g *Guard) standBy(at time.Duration) error {
	if g.sentinel == nil || at == g.backstop {
		return nil
	}
	g.backstop = at
	if at == 0 {
		return g.sentinel.rest()
	}
	return g.sentinel.set(at)
}

func (g *Guard) kill() {
	// One that ended meanwhile is what is wanted; another error stays one, and is tried again.
	_ = g.writer.SignalGroup(syscall.SIGKILL)
	g.fenced = g.writer
	if !g.killed {
		g.killed, g.killedAt = true, Boottime()
		g.log.Warn("killing the writer: its permission has ended", "pid", g.writer.PID())
	}
}

// forget lets go of a writer that has ended, after which nothing is to be killed any more.
func (g *Guard) forget() {
	if g.writer == nil {
		return
	}
	select {
	case <-g.writer.Done():
	default:
		return
	}
	if Boottime() >= g.until {
		// The sentinel may have been first.
		g.fenced = g.writer
	}
	g.writer, g.killed = nil, false
	g.relax()
}

// relax has the sentinel leave everybody alone.
func (g *Guard) relax() {
	if err := g.standBy(0); err != nil {
		g.log.Error("cannot tell the sentinel that no writer runs", "error", err.Error())
	}
}

// Start starts a writer, if the permission holds.
func (g *Guard) Start(start func() (Process, error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.check() {
		return ErrNoPermission
	}
	// To load a program can take longer than the permission lasts, and nobody answers here until it is loaded.
	if err := g.standBy(g.until + grace); err != nil {
		return fmt.Errorf("cannot watch the permission: %w", err)
	}
	process, err := start()
	if err != nil {
		g.relax()
		return err
	}
	g.writer, g.killed = process, false
	g.check()
	return nil
}

// Adopt takes a process that runs as a follower for the writer from now on, if the permission holds.
func (g *Guard) Adopt(p Process) error {
	return g.Start(func() (Process, error) { return p, nil })
}

// Writing says whether a process runs as the writer, also one that was killed and has not ended yet.
func (g *Guard) Writing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget()
	return g.writer != nil
}

// Killed says whether the process is the last writer that was killed since its permission had ended.
func (g *Guard) Killed(p Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fenced == p
}

// AwaitEnd waits until no writer runs, where there is no permission.
func (g *Guard) AwaitEnd(ctx context.Context) error {
	g.mu.Lock()
	g.check()
	writer, killed := g.writer, g.killed
	g.mu.Unlock()
	if writer == nil || !killed {
		return nil
	}
	select {
	case <-writer.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process %d was killed and has not ended yet: %w", writer.PID(), ctx.Err())
	}
}
