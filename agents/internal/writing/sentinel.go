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
	// SentinelCommand is the argument that makes the program run as a Sentinel.
	SentinelCommand = "sentinel"
	// sentinelTimer is the file descriptor of the inherited timer.
	sentinelTimer = 3
	// grace is the time for the Guard itself, after the end of a write lease and after a kill.
	grace = 200 * time.Millisecond
	// sentinelAgain is the time between two attempts to start a sentinel.
	sentinelAgain = time.Second
)

// StartSentinel starts SentinelCommand, which inherits the timer.
type StartSentinel func(timer *os.File) (Process, error)

// Sentinel is a second process besides PID 1 that kills a primary when PID 1 cannot, because it was stopped by a signal
// or a debugger, or hangs in the kernel. The two share a timer. PID 1 sets it to shortly after the end of the write
// lease, and renews it in time. If it expires, the sentinel kills all other processes of the container, so that it
// needs no process id, which might have been reused.
type Sentinel struct {
	log     *slog.Logger
	start   StartSentinel
	timer   *alarm
	closing chan struct{}
	ended   chan struct{}
}

// NewSentinel starts a sentinel. This program has to be PID 1 of its own namespace. Close ends the sentinel.
func NewSentinel(start StartSentinel, log *slog.Logger) (*Sentinel, error) {
	// The sentinel waits with a blocking read.
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
	go s.supervise(process)
	return s, nil
}

// supervise restarts the sentinel when it ends.
func (s *Sentinel) supervise(process Process) {
	defer close(s.ended)
	for {
		select {
		case <-process.Done():
		case <-s.closing:
			// It may have ended already.
			_ = process.SignalGroup(syscall.SIGKILL)
			<-process.Done()
			return
		}
		s.log.Warn("the sentinel has ended and is started again", "pid", process.PID())
		if process = s.restart(); process == nil {
			return
		}
	}
}

// restart starts the sentinel, with several attempts if needed; nil if the Sentinel is closing.
func (s *Sentinel) restart() Process {
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

// set makes the sentinel kill at a time of Boottime, and repeatedly from then on.
func (s *Sentinel) set(at time.Duration) error { return s.timer.repeat(at, killAgain) }

// disarm disarms the sentinel.
func (s *Sentinel) disarm() error { return s.timer.disarm() }

// Close ends the sentinel.
func (s *Sentinel) Close() {
	close(s.closing)
	<-s.ended
	s.timer.close()
}

// BeSentinel waits for the timer, and kills all processes of the container except PID 1, until it is killed itself.
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
			// ESRCH, no other process, is the goal.
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	}
}
