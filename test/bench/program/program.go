// SPDX-License-Identifier: Apache-2.0

// Package program runs the processes of the bench and says what they use.
package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// patience is how long a program may take to end by itself.
const patience = 30 * time.Second

// Program is a running process.
type Program struct {
	name    string
	log     string
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Start starts a program that writes to a log of its own in a folder.
func Start(name, logs, path string, arguments ...string) (*Program, error) {
	log := filepath.Join(logs, name+".log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the log of %s: %w", name, err)
	}
	defer file.Close() // The process has it, too.
	p := &Program{name: name, log: log, command: exec.Command(path, arguments...), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = file, file
	// A signal from the keyboard is for the bench, which ends its programs in order.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.command.Wait()
	}()
	return p, nil
}

// Failure says how a program ended that should have run on.
func (p *Program) Failure() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended (%v): see %s", p.name, p.err, p.log)
	default:
		return nil
	}
}

// Stop has the program end by itself, and kills it when that takes too long.
func (p *Program) Stop(ctx context.Context) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		_ = p.command.Process.Kill() // It may have ended just now.
		<-p.ended
		return fmt.Errorf("%s did not end within %v and was killed", p.name, patience)
	}
}

// Usage returns what the program has used so far.
func (p *Program) Usage() (Usage, error) {
	if err := p.Failure(); err != nil {
		return Usage{}, err
	}
	return usageOf(p.command.Process.Pid)
}
