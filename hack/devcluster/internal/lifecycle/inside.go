// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/process"
	"golang.org/x/sys/unix"
)

// Exec becomes a command of the host inside a machine's network, with the
// cluster's DNS. bin is a folder to put in front of PATH, if any. It must be
// called on the main thread and returns only on failure.
func (m *Manager) Exec(on, bin string, command []string) error {
	if _, err := m.Cluster.Load(); err != nil {
		return err
	}
	mc := m.machine(on)
	if !mc.On() {
		return fmt.Errorf("cannot run a command on machine %q: it does not exist or is switched off: run \"devcluster "+
			"status\"", on)
	}
	// The directory is entered again: parting the mounts keeps it, but a path
	// that is relative must mean the same.
	if err := process.Enter([]process.Namespace{{Kind: "net", PID: mc.Init().PID}}); err != nil {
		return err
	}
	if err := m.useClusterDNS(); err != nil {
		return err
	}
	path := os.Getenv("PATH")
	if bin != "" {
		path = bin + string(os.PathListSeparator) + path
	}
	for name, value := range map[string]string{"PATH": path, "KUBECONFIG": m.Cluster.InnerKubeconfig()} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	file, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("cannot find command %q: %w", command[0], err)
	}
	if err := syscall.Exec(file, command, os.Environ()); err != nil {
		return fmt.Errorf("cannot run %q: %w", file, err)
	}
	return nil
}

// useClusterDNS shows this process alone the cluster's resolver configuration.
func (m *Manager) useClusterDNS() error {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing to hide: addresses still work
	}
	if err != nil {
		return fmt.Errorf("cannot find the resolver configuration: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("cannot part the mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot part the mounts: %w", err)
	}
	if err := unix.Mount(m.Cluster.Resolv(), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot show the cluster's resolver configuration: %w", err)
	}
	return nil
}

// LogOptions say how much of a log to print.
type LogOptions struct {
	// Follow keeps printing what is added.
	Follow bool
	// Lines is the number of last lines to begin with, -1 for all.
	Lines int
}

// Logs lists the names under which Log finds logs.
func (m *Manager) Logs() ([]string, error) {
	if _, err := m.Cluster.Load(); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(m.Cluster.Path("*", "log", "*.log"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		mc := filepath.Base(filepath.Dir(filepath.Dir(file)))
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		if mc != cluster.ControlPlane {
			name = mc + "/" + name
		}
		names = append(names, name)
	}
	if _, err := os.Stat(m.forwarderLog()); err == nil {
		names = append(names, "forward")
	}
	slices.Sort(names)
	return names, nil
}

// Log prints the log of a program: of the control plane by its name alone, of
// a node as NODE/PROGRAM.
func (m *Manager) Log(ctx context.Context, name string, o LogOptions) error {
	names, err := m.Logs()
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("cannot find log %q: choose one of %s", name, strings.Join(names, ", "))
	}
	file := m.forwarderLog()
	if name != "forward" {
		mc, program, ok := strings.Cut(name, "/")
		if !ok {
			mc, program = cluster.ControlPlane, name
		}
		file = m.machine(mc).Log(program)
	}
	lines := strconv.Itoa(o.Lines)
	if o.Lines < 0 {
		lines = "+1"
	}
	args := []string{"-n", lines}
	if o.Follow {
		args = append(args, "-F")
	}
	cmd := exec.CommandContext(ctx, "tail", append(args, file)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cannot print log %q: %w", name, err)
	}
	return nil
}
