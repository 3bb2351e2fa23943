// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package lifecycle brings clusters up and down, and does to them what people
// and tests want: cut and stop nodes, load images, look at their state.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/cgroup"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
)

// Manager does everything to one cluster.
type Manager struct {
	// Cluster is the cluster to manage.
	Cluster cluster.Cluster
	// Builder makes the programs.
	Builder *build.Builder
	// Say prints one line of progress.
	Say func(format string, args ...any)

	trees *cgroup.Trees
}

// New returns a manager for a cluster on this machine.
func New(c cluster.Cluster, b *build.Builder, say func(string, ...any)) (*Manager, error) {
	trees, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	return &Manager{Cluster: c, Builder: b, Say: say, trees: trees}, nil
}

// machine returns one of the cluster's machines by name.
func (m *Manager) machine(name string) *machine.Machine {
	return &machine.Machine{Cluster: m.Cluster, Name: name, Trees: m.trees}
}

func (m *Manager) controlPlane() *machine.Machine { return m.machine(cluster.ControlPlane) }

// lock takes the cluster for a command that changes it.
func (m *Manager) lock() (func(), error) {
	return m.Cluster.Lock(func() { m.Say("waiting for another devcluster command on cluster %q …", m.Cluster.Name) })
}

// client returns a client of the cluster's API server.
func (m *Manager) client(creds *controlplane.Credentials, port int) (*api.Client, error) {
	admin, err := creds.Admin()
	if err != nil {
		return nil, err
	}
	return api.New(fmt.Sprintf("https://127.0.0.1:%d", port), creds.CA.PEM, admin)
}

// space opens a machine's network.
func (m *Manager) space(name string) (*network.Space, error) {
	mc := m.machine(name)
	if !mc.On() {
		return nil, fmt.Errorf("cannot reach machine %q: it is switched off: run \"devcluster up\" or \"devcluster node "+
			"start\"", name)
	}
	return network.Open(mc.Init().PID)
}

// each runs f for all names at the same time and joins the errors.
func each(names []string, f func(name string) error) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = f(name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// existing lists the machines that have a folder or a control group, whether
// or not the settings know them.
func (m *Manager) existing() []string {
	names := []string{}
	seen := map[string]bool{}
	candidates := []string{cluster.ControlPlane}
	for i := 1; i <= cluster.MaxNodes; i++ {
		candidates = append(candidates, cluster.NodeName(i))
	}
	for _, name := range candidates {
		mc := m.machine(name)
		_, err := os.Stat(mc.Path())
		if !seen[name] && (err == nil || m.trees.Exists(mc.Group())) {
			names = append(names, name)
		}
		seen[name] = true
	}
	return names
}

// timed says how long something took.
func (m *Manager) timed(what string, start time.Time) {
	m.Say("%s (%.1fs)", what, time.Since(start).Seconds())
}

// nodeIndex returns the number of a node by its name.
func nodeIndex(s cluster.Settings, name string) (int, error) {
	for i, n := range s.NodeNames() {
		if n == name {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("cannot find node %q: this cluster has n1 to n%d", name, s.Nodes)
}

// deadError says that a program has ended: waiting for it is in vain.
type deadError struct{ program, machine, log string }

func (e deadError) Error() string {
	return fmt.Sprintf("%s on machine %s has ended, see %s", e.program, e.machine, e.log)
}

// alive returns a deadError when one of a machine's programs has ended.
func alive(m *machine.Machine, programs ...string) error {
	for _, p := range programs {
		if !m.Process(p).Alive() {
			return deadError{p, m.Name, m.Log(p)}
		}
	}
	return nil
}

// waitFor polls a condition until it holds. It gives up at a deadError and,
// when the time is over, says what the condition last lacked.
func waitFor(ctx context.Context, limit time.Duration, what string, condition func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if _, dead := errors.AsType[deadError](err); dead || err == nil {
			return err
		}
		// What it lacked says more than that the time was over.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not happen within %s: %w", what, limit, last)
		case <-ticker.C:
		}
	}
}
