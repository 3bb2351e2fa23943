// SPDX-License-Identifier: Apache-2.0

package reaper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrEnded says that a signal came too late.
var ErrEnded = errors.New("the process has ended")

// Process is one that Start started.
type Process struct {
	reaper *Reaper
	pid    int
	family Family
	done   chan struct{}
	// exit is set before done is closed.
	exit Exit
	// overdue ends the wait for the family; it is there once the leader was collected. Guarded by births.
	overdue *time.Timer
}

// PID is the number of the process and of its group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended and its family is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended. It waits for Done.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Signal sends a signal to the process alone. It returns ErrEnded when there is none.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.kill(p.pid, sig)
}

// SignalGroup sends a signal to the process and all of its group. It returns ErrEnded when there is none.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	return p.kill(-p.pid, sig)
}

func (p *Process) kill(target int, sig syscall.Signal) error {
	p.reaper.mu.Lock()
	defer p.reaper.mu.Unlock()
	if p.reaper.leaders[p.pid] != p {
		return ErrEnded
	}
	if err := unix.Kill(target, sig); err != nil {
		return fmt.Errorf("cannot send %s to process %d: %w", unix.SignalName(sig), p.pid, err)
	}
	return nil
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code; -1 when a signal ended it.
	Code int
	// Signal that ended it; 0 when it exited.
	Signal syscall.Signal
}

func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}

// String is "exit code 1" or "signal SIGKILL".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal " + unix.SignalName(e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// ShellCode is the exit code, and 128 and the number of the signal, as a shell has it.
func (e Exit) ShellCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// lookPath finds a command in the PATH of the environment that it will have.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := ""
	for _, assignment := range env {
		if value, found := strings.CutPrefix(assignment, "PATH="); found {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w in PATH %q", fs.ErrNotExist, search)
}
