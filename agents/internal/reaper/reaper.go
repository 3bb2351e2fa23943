// SPDX-License-Identifier: Apache-2.0

// Package reaper starts processes and collects the exit status of every child,
// also of orphans that PID 1 inherits. It is the only package that forks and
// waits, so that two waits never race for one child. A program that uses it must
// not start processes in another way.
//
// Each process leads a process group of its own. When the leader has ended, what
// is left of its family is killed (its group, or everything that is nobody
// else's), and only when that is gone (or after groupTimeout) does the process
// count as done.
package reaper

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupTimeout bounds the wait for a killed group whose members do not vanish,
// for example because a foreign parent does not collect them.
const groupTimeout = time.Second

// Spec is a process to start.
type Spec struct {
	// Command and arguments. A name without a slash is looked up in the PATH of Env.
	Command []string
	// Env is the whole environment.
	Env []string
	// Dir is the working directory; the own one when empty.
	Dir string
	// Stdin, Stdout and Stderr are inherited as they are. Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Inherited, when not nil, is inherited, too, as file descriptor 3.
	Inherited *os.File
	// Family is what is ended when the process has ended.
	Family Family
}

// Reaper collects all children of this program.
type Reaper struct {
	log *slog.Logger
	// null is what processes have in the place of files that they are not given.
	null *os.File

	// births is held around fork and registration, and around collecting: a child that ends at once is registered before
	// it is collected.
	births sync.Mutex
	// ending are collected leaders whose family is not gone yet. Guarded by births.
	ending map[int]*Process

	// mu is held around a wait and what follows for leaders, and around a signal: it never reaches a process number that
	// was given to somebody else. Nothing that could block is done with it, so that who is to be killed is killed now.
	mu sync.Mutex
	// leaders are the running processes that Start started. It changes with births and mu held, so that either is enough
	// to read it.
	leaders map[int]*Process
}

// New makes this program the parent of its orphaned descendants, as PID 1 is
// anyway, and collects children for as long as the program runs.
func New(log *slog.Logger) (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot adopt orphans: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot start processes: %w", err)
	}
	r := &Reaper{log: log, null: null, leaders: map[int]*Process{}, ending: map[int]*Process{}}
	// One pending notice is enough: each makes the loop collect everything there is.
	notices := make(chan os.Signal, 1)
	signal.Notify(notices, unix.SIGCHLD)
	go func() {
		for range notices {
			r.collect()
		}
	}()
	return r, nil
}

// Start starts a process in a process group of its own.
func (r *Reaper) Start(spec Spec) (*Process, error) {
	if len(spec.Command) == 0 {
		return nil, errors.New("cannot start a process: the command is empty")
	}
	path, err := lookPath(spec.Command[0], spec.Env)
	if err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", spec.Command[0], err)
	}
	attr := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []uintptr{descriptor(spec.Stdin, r.null), descriptor(spec.Stdout, r.null), descriptor(spec.Stderr, r.null)},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if spec.Inherited != nil {
		attr.Files = append(attr.Files, spec.Inherited.Fd())
	}
	load(spec.Dir, path)
	r.births.Lock()
	defer r.births.Unlock()
	pid, err := syscall.ForkExec(path, spec.Command, attr)
	if err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", path, err)
	}
	p := &Process{reaper: r, pid: pid, family: spec.Family, done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders[pid] = p
	return p, nil
}

func descriptor(file, null *os.File) uintptr {
	if file == nil {
		return null.Fd()
	}
	return file.Fd()
}

// collect waits for all children that have ended.
func (r *Reaper) collect() {
	r.births.Lock()
	defer r.births.Unlock()
	for r.collectOne() {
	}
	for _, p := range r.ending {
		if r.gone(p) {
			r.finish(p)
		}
	}
}

// collectOne waits for one child that has ended, and says whether there was one. Called with births.
func (r *Reaper) collectOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if p := r.leaders[pid]; p != nil {
		delete(r.leaders, pid)
		r.leaderEnded(p, status)
	}
	return true
}

// leaderEnded kills the rest of the group; gone does so with the rest of the family. Called with births, right after
// the wait.
func (r *Reaper) leaderEnded(p *Process, status unix.WaitStatus) {
	r.ending[p.pid] = p
	p.exit = exitOf(status)
	if err := unix.Kill(-p.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		r.log.Warn("cannot end the rest of a process group", "pid", p.pid, "error", err.Error())
	}
	p.overdue = time.AfterFunc(groupTimeout, func() {
		r.births.Lock()
		defer r.births.Unlock()
		if r.ending[p.pid] == p {
			r.log.Warn("what a process has started outlives it", "pid", p.pid)
			r.finish(p)
		}
	})
}

func (r *Reaper) finish(p *Process) {
	delete(r.ending, p.pid)
	// One that is not needed would wake an agent once more for each of its probes.
	p.overdue.Stop()
	close(p.done)
}

func groupGone(pgid int) bool {
	return errors.Is(unix.Kill(-pgid, 0), unix.ESRCH)
}
