// SPDX-License-Identifier: Apache-2.0

// Package stage runs one stage of the gate, which is a make target, in a process group of its own.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// grace is how long a stage may take to clean up after it was told to end.
const grace = 2 * time.Minute

// Runner runs stages.
type Runner struct {
	// Root is the folder of the Makefile.
	Root string
	// Logs is the folder that keeps the output of stage NAME as NAME.log and the events of its tests in the folder NAME.
	Logs string
	// Out shows the output too.
	Out io.Writer
}

// Log is the file with the output of a stage.
func (r Runner) Log(name string) string { return filepath.Join(r.Logs, name+".log") }

// Events is the folder with the events of the tests of a stage.
func (r Runner) Events(name string) string { return filepath.Join(r.Logs, name) }

// Run runs make with the stage as its target until it ends. When ctx ends, the whole process group is told to end, and
// is killed when it has not after two minutes; then all else that the stage has started is killed.
func (r Runner) Run(ctx context.Context, name string) error {
	if err := errors.Join(os.RemoveAll(r.Events(name)), os.MkdirAll(r.Events(name), 0o755)); err != nil {
		return fmt.Errorf("cannot make the folder of stage %s: %w", name, err)
	}
	log, err := os.Create(r.Log(name))
	if err != nil {
		return fmt.Errorf("cannot keep the output of stage %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command("make", "--no-print-directory", name)
	cmd.Dir = r.Root
	out := io.MultiWriter(r.Out, log)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A process that a stage leaves behind holds its output open: do not wait for that.
	cmd.WaitDelay = time.Second
	events := "TEST_EVENTS=" + r.Events(name)
	cmd.Env = append(os.Environ(), events)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		if errors.Is(err, exec.ErrWaitDelay) {
			err = nil // It passed, and left a process behind.
		}
	case <-ctx.Done():
		err = errors.Join(context.Cause(ctx), end(cmd.Process.Pid, ended))
		killAll(events)
	}
	// What a stage left in its group ends with it.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// end tells a process group to end and waits until its leader has.
func end(group int, ended <-chan error) error {
	_ = syscall.Kill(-group, syscall.SIGTERM) // It may have ended by itself.
	select {
	case err := <-ended:
		return err
	case <-time.After(grace):
		_ = syscall.Kill(-group, syscall.SIGKILL)
		return errors.Join(fmt.Errorf("it did not end within %v and was killed", grace), <-ended)
	}
}
