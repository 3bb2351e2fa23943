// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/zeroinfra/test/bench/controlplane"
)

// insideVariable is set for the bench that works in namespaces of its own.
const insideVariable = "ZEROINFRA_BENCH_ISOLATED"

func isolated() bool { return os.Getenv(insideVariable) != "" }

// isolate runs this program once more in a network and a process namespace of its own. There it is
// the first process: when it ends, however that comes, the kernel ends all that it has started.
func isolate(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("cannot have a network of its own: run it as root")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program: %w", err)
	}
	inner := exec.Command(self, os.Args[1:]...)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.Env = append(os.Environ(), insideVariable+"=1")
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Setpgid:    true,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := inner.Start(); err != nil {
		return fmt.Errorf("cannot make namespaces: %w", err)
	}
	// It ends its programs in order when it is told to.
	stop := context.AfterFunc(ctx, func() { _ = inner.Process.Signal(syscall.SIGTERM) })
	defer stop()
	if err := inner.Wait(); err != nil {
		return fmt.Errorf("the isolated bench failed: %w", err)
	}
	return nil
}

// enter prepares the namespaces: /proc shows the processes of the bench, and the addresses of all
// pods lead to this machine, so that the simulated agents can answer on them.
func enter(ctx context.Context) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot have mounts of its own: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w", err)
	}
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"route", "add", "local", controlplane.PodNetwork, "dev", "lo"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot set up the network (ip %v): %w: %s", arguments, err, out)
		}
	}
	return nil
}
