// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// SentinelCommand has the program be the process of a Sentinel.
	SentinelCommand = "sentinel"
	// sentinelTimer is the file descriptor of the timer there: the one that a started process inherits.
	sentinelTimer = 3
	// grace is what the Guard has for itself, after the end of a permission and after it has killed.
	grace = 200 * time.Millisecond
	// sentinelAgain is the time between attempts to have a sentinel.
	sentinelAgain = time.Second
)

// StartSentinel starts SentinelCommand, which inherits the timer.
type StartSentinel func(timer *os.File) (Process, error)

// Sentinel is a second process beside PID 1 that ends a writer when PID 1 does not: one that was stopped by a signal or
// a debugger, or that the kernel holds. The two share a timer. PID 1 sets it to a little after the end of
// the permission, and nobody wakes up while it does so in time. When it rings all the same, the sentinel kills whatever
// else is in the container: it needs no number of a process, which might be somebody else's by then.
type Sentinel struct {
	log     *slog.Logger
	start   StartSentinel
	timer   *alarm
	closing chan struct{}
	ended   chan struct{}
}

// NewSentinel starts one. This program has to be PID 1 of a namespace of its own. Close ends it.
func NewSentinel(start StartSentinel, log *slog.Logger) (*Sentinel, error) {
	// What inherits it waits by reading.
	timer, err := newAlarm(0)
	if err != nil {
		return nil, err
	}
	s := &Sentinel{log: log, start: start, timer: timer, closing: make(chan struct{}), ended: make(chan struct{})}
	process, err := start(timer.file)
	if err != nil {
		timer.close()
		return nil, fmt.Errorf("cannot start the sentinel: %w", err)
	}
	go s.keep(process)
	return s, nil
}

// keep has another one be there when the process has ended.
func (s *Sentinel) keep(process Process) {
	defer close(s.ended)
	for {
		select {
		case <-process.Done():
		case <-s.closing:
			// One that has ended by itself is as good.
			_ = process.SignalGroup(syscall.SIGKILL)
			<-process.Done()
			return
		}
		s.log.Warn("the sentinel has ended and is started again", "pid", process.PID())
		if process = s.replace(); process == nil {
			return
		}
	}
}

// replace starts another one, which may need several attempts; nil when none is wanted any more.
func (s *Sentinel) replace() Process {
	for {
		select {
		case <-time.After(sentinelAgain):
		case <-s.closing:
			return nil
		}
		process, err := s.start(s.timer.file)
		if err == nil {
			return process
		}
		s.log.Error("cannot start the sentinel", "error", err.Error())
	}
}

// set has the sentinel kill at a time of Boottime, and again and again from then on.
func (s *Sentinel) set(at time.Duration) error { return s.timer.repeat(at, killAgain) }

// rest has the sentinel leave everybody alone.
func (s *Sentinel) rest() error { return s.timer.quiet() }

// Close ends the process.
func (s *Sentinel) Close() {
	close(s.closing)
	<-s.ended
	s.timer.close()
}

// BeSentinel is what the process does until it is killed: it waits for the timer, and kills all others of the container
// but PID 1.
func BeSentinel() error {
	if os.Getppid() != 1 {
		return errors.New("only the process manager of a container starts it, as PID 1 there")
	}
	var rings [8]byte
	for {
		switch _, err := unix.Read(sentinelTimer, rings[:]); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("cannot wait for the timer: %w", err)
		default:
			// Nobody else being there is what is wanted.
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	}
}
