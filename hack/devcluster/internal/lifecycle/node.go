// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/image"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
	"github.com/zeroinfra/hack/devcluster/internal/node"
)

// Cut pulls a node's network cable.
func (m *Manager) Cut(name string) error {
	return m.port(name, network.Cut, "cut node %s off")
}

// Heal puts a node's network cable back.
func (m *Manager) Heal(name string) error {
	return m.port(name, network.Heal, "node %s is connected")
}

// port does something to a node's port on the bridge.
func (m *Manager) port(name string, do func(*network.Space, string) error, said string) error {
	s, err := m.Cluster.Load()
	if err != nil {
		return err
	}
	if _, err := nodeIndex(s, name); err != nil {
		return err
	}
	if !m.machine(name).On() {
		return fmt.Errorf("cannot change the cable of node %q: the node is switched off: run \"devcluster node start %s\" "+
			"first", name, name)
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	space, err := m.space(cluster.ControlPlane)
	if err != nil {
		return err
	}
	defer space.Close()
	if err := do(space, name); err != nil {
		return err
	}
	m.Say(said, name)
	return nil
}

// Stop switches a node off as a power cut does. Its disk stays.
func (m *Manager) Stop(ctx context.Context, name string) error {
	s, err := m.Cluster.Load()
	if err != nil {
		return err
	}
	if _, err := nodeIndex(s, name); err != nil {
		return err
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	if err := m.machine(name).PowerOff(ctx); err != nil {
		return err
	}
	if m.controlPlane().On() {
		space, err := m.space(cluster.ControlPlane)
		if err != nil {
			return err
		}
		defer space.Close()
		if err := network.Detach(space, name); err != nil {
			return err
		}
	}
	m.Say("switched off node %s", name)
	return nil
}

// Start switches a node on and waits until it is ready.
func (m *Manager) Start(ctx context.Context, name string) error {
	return m.start(ctx, name, func(context.Context, *machine.Machine) error { return nil })
}

// RestartKubelet ends a node's kubelet, starts another one and waits until the node is ready. Its pods keep running.
func (m *Manager) RestartKubelet(ctx context.Context, name string) error {
	return m.start(ctx, name, func(ctx context.Context, mc *machine.Machine) error {
		if !mc.On() {
			return fmt.Errorf("cannot restart the kubelet of node %q: the node is switched off: run \"devcluster node start "+
				"%s\" first", name, name)
		}
		return mc.Halt(ctx, node.Kubelet)
	})
}

// start starts what does not run on a node, after something was done to its machine, and waits until it is ready.
func (m *Manager) start(ctx context.Context, name string, first func(context.Context, *machine.Machine) error) error {
	start := time.Now()
	s, err := m.Cluster.Load()
	if err != nil {
		return err
	}
	if _, err := nodeIndex(s, name); err != nil {
		return err
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !m.controlPlane().On() {
		return errors.New("cannot start a node without its control plane: run \"devcluster up\"")
	}
	u, err := m.prepare(ctx, s)
	if err != nil {
		return err
	}
	if err := first(ctx, m.machine(name)); err != nil {
		return err
	}
	ready := make(chan struct{})
	close(ready)
	if err := u.startNode(ctx, name, ready); err != nil {
		return err
	}
	if err := u.awaitNodes(ctx, name); err != nil {
		return err
	}
	m.timed("node "+name+" is ready", start)
	return nil
}

// Load brings image archives to all nodes that are switched on.
func (m *Manager) Load(ctx context.Context, files []string) error {
	s, err := m.Cluster.Load()
	if err != nil {
		return err
	}
	var on []string
	for _, name := range s.NodeNames() {
		if m.machine(name).On() {
			on = append(on, name)
		} else {
			m.Say("node %s is switched off and gets nothing", name)
		}
	}
	if len(on) == 0 {
		return fmt.Errorf("cannot load images into cluster %q: no node is switched on: run \"devcluster up\"", m.Cluster.Name)
	}
	archives := make([]*image.Archive, len(files))
	for i, file := range files {
		if archives[i], err = image.Open(file); err != nil {
			return err
		}
	}
	return m.loadInto(ctx, on, archives)
}

// loadInto brings archives to nodes, to all at the same time.
func (m *Manager) loadInto(ctx context.Context, nodes []string, archives []*image.Archive) error {
	start := time.Now()
	var mu sync.Mutex
	loaded := map[*image.Archive]int{}
	if err := each(nodes, func(name string) error {
		news, err := image.Load(ctx, m.machine(name), archives...)
		mu.Lock()
		defer mu.Unlock()
		for _, a := range news {
			loaded[a]++
		}
		return err
	}); err != nil {
		return err
	}
	for _, a := range archives {
		for _, e := range a.Entries {
			if n := loaded[a]; n > 0 {
				m.timed(fmt.Sprintf("loaded %s into %d of %d nodes", e.Name, n, len(nodes)), start)
			} else {
				m.timed(fmt.Sprintf("%s is in all nodes already", e.Name), start)
			}
		}
	}
	return nil
}
