// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// downLimit is how long "down" waits for the kernel to end everything.
const downLimit = time.Minute

// Down ends everything of the cluster and removes its state. It also cleans
// up what a killed command or a reboot has left. The cache of programs stays.
func (m *Manager) Down(ctx context.Context) error {
	start := time.Now()
	if _, err := os.Stat(m.Cluster.Dir); errors.Is(err, os.ErrNotExist) && !m.trees.Exists(m.group()) {
		m.Say("there is no cluster %q", m.Cluster.Name)
		return nil
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	// The control plane goes first: nobody shall see nodes disappear.
	if err := m.stopForwarder(ctx); err != nil {
		return err
	}
	if err := m.controlPlane().PowerOff(ctx); err != nil {
		return err
	}
	err = each(m.existing(), func(name string) error { return m.machine(name).PowerOff(ctx) })
	if err != nil {
		return err
	}
	if err := process.Clear(ctx, m.trees, m.group()); err != nil {
		return err
	}
	if err := m.removeGroups(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(m.Cluster.Dir); err != nil {
		return fmt.Errorf("cannot remove the state of cluster %q: %w", m.Cluster.Name, err)
	}
	// Folders above it are ours when nothing else is in them.
	base := filepath.Dir(m.Cluster.Dir)
	if base == cluster.DefaultBase && os.Remove(base) == nil {
		_ = os.Remove(filepath.Dir(base))
	}
	m.timed(fmt.Sprintf("cluster %q is gone", m.Cluster.Name), start)
	return nil
}

// removeGroups removes the cluster's control groups. One can be removed a
// moment after its last process is gone.
func (m *Manager) removeGroups(ctx context.Context) error {
	var last error
	err := process.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		last = m.trees.Remove(m.group())
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	m.trees.RemoveEmpty(cgroup.Root)
	return nil
}
