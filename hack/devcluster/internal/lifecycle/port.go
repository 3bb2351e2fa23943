// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/forward"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// listenerFD is the descriptor on which the forwarder gets its open port.
const listenerFD = 3

func (m *Manager) group() string { return cgroup.Root + "/" + m.Cluster.Name }

// forwarderGroup is the control group of the only process on the host itself.
func (m *Manager) forwarderGroup() string { return m.group() + "/host" }

func (m *Manager) forwarderRecord() string { return m.Cluster.Path("pids", "forward.json") }

func (m *Manager) forwarder() process.Record { return process.Load(m.forwarderRecord()) }

// ForwarderLog is the forwarder's log file.
func (m *Manager) forwarderLog() string { return m.Cluster.Path("log", forward.Verb+".log") }

// ensurePort starts the forwarder from the host's port unless it runs.
func (m *Manager) ensurePort(ctx context.Context, port int) error {
	fingerprint := fmt.Sprintf("127.0.0.1:%d", port)
	if r := m.forwarder(); r.Alive() && r.Fingerprint == fingerprint {
		return nil
	}
	if err := m.stopForwarder(ctx); err != nil {
		return err
	}
	listener, err := forward.Listen(port)
	if err != nil {
		return err
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return fmt.Errorf("cannot hand port %d on: %w", port, err)
	}
	defer file.Close()
	// The forwarder outlives this program, whose file may be a passing one.
	program := m.Cluster.Path("bin", "devcluster")
	if err := os.MkdirAll(m.Cluster.Path("bin"), 0o755); err != nil {
		return fmt.Errorf("cannot make folder for the forwarder: %w", err)
	}
	if err := build.CopyFile("/proc/self/exe", program); err != nil {
		return fmt.Errorf("cannot keep a copy of this program for the forwarder: %w", err)
	}
	if err := os.MkdirAll(m.Cluster.Path("log"), 0o755); err != nil {
		return fmt.Errorf("cannot make log folder: %w", err)
	}
	log, err := os.OpenFile(m.forwarderLog(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot open the forwarder's log: %w", err)
	}
	defer log.Close()
	if err := m.trees.Ensure(m.forwarderGroup()); err != nil {
		return err
	}
	cmd := exec.Command(program, forward.Verb, m.controlPlane().Record())
	cmd.Dir, cmd.Env = "/", []string{"LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := process.Start(cmd, process.Placement{Trees: m.trees, Group: m.forwarderGroup()}); err != nil {
		return fmt.Errorf("cannot start the forwarder: %w", err)
	}
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("the forwarder ended at once, see %s: %w", m.forwarderLog(), err)
	}
	return process.Record{Identity: id, Fingerprint: fingerprint}.Save(m.forwarderRecord())
}

// stopForwarder ends the forwarder, also one that is not on record.
func (m *Manager) stopForwarder(ctx context.Context) error {
	const patience = 2 * time.Second
	if err := m.forwarder().Stop(ctx, patience); err != nil {
		return fmt.Errorf("cannot end the forwarder: %w", err)
	}
	if err := process.Clear(ctx, m.trees, m.forwarderGroup()); err != nil {
		return err
	}
	return process.Forget(m.forwarderRecord())
}

// Forward is the forwarder's whole life: it serves the open port that it was
// started with. record is that of the control plane's machine.
func Forward(record string) error {
	l, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return errors.Join(errors.New("cannot forward: this verb is started by \"devcluster up\" only"), err)
	}
	return forward.Serve(l, func() process.Identity { return process.Load(record).Identity })
}

// settingsOrDefault returns the cluster's settings, or those of a new one.
func settingsOrDefault(c cluster.Cluster) (cluster.Settings, error) {
	s, err := c.Load()
	if errors.Is(err, cluster.ErrAbsent) {
		return cluster.Defaults(), nil
	}
	return s, err
}

// Settings returns the cluster's settings, or those of a new one.
func (m *Manager) Settings() (cluster.Settings, error) { return settingsOrDefault(m.Cluster) }
