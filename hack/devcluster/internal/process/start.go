// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"golang.org/x/sys/unix"
)

// Namespace is one namespace to enter, such as the file /proc/7/ns/net.
type Namespace struct {
	// Kind is "mnt", "pid", "net", "uts" or "ipc".
	Kind string
	// PID is a process that lives in the namespace.
	PID int
}

// Of lists all namespaces of the machine whose first process is pid, in the
// order in which they can be entered.
func Of(pid int) []Namespace {
	return []Namespace{{"ipc", pid}, {"uts", pid}, {"net", pid}, {"pid", pid}, {"mnt", pid}}
}

// Enter moves the calling thread into namespaces. The thread must be locked
// and must never be given back. A new process namespace holds for children.
func Enter(spaces []Namespace) error {
	if len(spaces) == 0 {
		return nil
	}
	// A thread that shares its working directory with others cannot change
	// its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("cannot part the working directory: %w", err)
	}
	files := make([]*os.File, 0, len(spaces))
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	// All are opened first: entering the mounts hides the host's processes.
	for _, s := range spaces {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", s.PID, s.Kind))
		if err != nil {
			return fmt.Errorf("cannot open the %s namespace of process %d: %w", s.Kind, s.PID, err)
		}
		files = append(files, f)
	}
	for i, s := range spaces {
		if err := unix.Setns(int(files[i].Fd()), 0); err != nil {
			return fmt.Errorf("cannot enter the %s namespace of process %d: %w", s.Kind, s.PID, err)
		}
	}
	return nil
}

// Placement says where a program runs.
type Placement struct {
	// Trees and Group name the control group; an empty Group means none.
	Trees *cgroup.Trees
	Group string
	// Namespaces are entered before the start.
	Namespaces []Namespace
}

// Start starts a command where the placement says and returns at once. The
// returned channel gets the command's end.
func Start(cmd *exec.Cmd, p Placement) (<-chan error, error) {
	started := make(chan error, 1)
	ended := make(chan error, 1)
	go func() {
		// The thread is not given back: it ends with this goroutine, after
		// the command, which it waits for.
		runtime.LockOSThread()
		if err := start(cmd, p); err != nil {
			started <- err
			return
		}
		started <- nil
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return ended, nil
}

// start starts the command on the calling thread.
func start(cmd *exec.Cmd, p Placement) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if p.Group != "" {
		if err := p.Trees.EnterThread(p.Group); err != nil {
			return err
		}
		dir, err := p.Trees.Open(p.Group)
		if err != nil {
			return err
		}
		if dir != nil {
			defer dir.Close()
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		}
	}
	if err := Enter(p.Namespaces); err != nil {
		return err
	}
	return cmd.Start()
}

// Run runs a command where the placement says and waits for its end.
func Run(cmd *exec.Cmd, p Placement) error {
	ended, err := Start(cmd, p)
	if err != nil {
		return err
	}
	return <-ended
}

// Signal sends a signal to a process if it still is the one we know.
func (id Identity) Signal(sig syscall.Signal) error {
	if !id.Alive() {
		return nil
	}
	// A descriptor of the process closes the gap between looking and sending.
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return fmt.Errorf("cannot open process %d: %w", id.PID, err)
	}
	defer unix.Close(fd)
	if !id.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot send %s to process %d: %w", sig, id.PID, err)
	}
	return nil
}

// Stop ends a process, by force when it has not ended after the patience.
func (id Identity) Stop(ctx context.Context, patience time.Duration) error {
	if err := id.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	soft, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if id.await(soft) == nil {
		return nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return id.await(ctx)
}

// await waits until the process has ended wholly.
func (id Identity) await(ctx context.Context) error {
	return Until(ctx, 20*time.Millisecond, func() (bool, error) { return id.gone(), nil })
}

// Until calls a condition at once and then at every interval until it holds,
// fails or the context ends.
func Until(ctx context.Context, interval time.Duration, condition func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		done, err := condition()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Clear ends every process of a control group by force and waits for that.
func Clear(ctx context.Context, trees *cgroup.Trees, group string) error {
	err := Until(ctx, 20*time.Millisecond, func() (bool, error) {
		pids, err := trees.Processes(group)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		for _, pid := range pids {
			id, err := Identify(pid)
			if err != nil {
				continue // it has ended by itself
			}
			if err := id.Signal(syscall.SIGKILL); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("cannot end the processes of cgroup %q: %w", group, err)
	}
	return nil
}
