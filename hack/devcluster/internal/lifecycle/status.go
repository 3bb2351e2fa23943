// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/network"
	"github.com/zeroinfra/hack/devcluster/internal/node"
	"github.com/zeroinfra/hack/devcluster/internal/process"
)

// Status is all there is to know about a cluster.
type Status struct {
	// Name and State are the cluster's name and the folder of its state.
	Name  string `json:"name"`
	State string `json:"state"`
	// Healthy is true when everything below is.
	Healthy bool `json:"healthy"`
	// Kubeconfig is the administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig"`
	// API is the API server as the host sees it.
	API APIStatus `json:"api"`
	// Forwarder leads from the host to the API server.
	Forwarder ProgramStatus `json:"forwarder"`
	// Machines are the control plane and the nodes.
	Machines []MachineStatus `json:"machines"`
	// Addons are the cluster's own workloads.
	Addons []AddonStatus `json:"addons"`
	// MemoryBytes is the resident memory of everything in the cluster, pages
	// that processes share counted for each.
	MemoryBytes int64 `json:"memoryBytes"`
}

// APIStatus is the API server's address and state.
type APIStatus struct {
	URL string `json:"url"`
	api.State
}

// MachineStatus is the state of one machine.
type MachineStatus struct {
	Name string `json:"name"`
	// Role is "control-plane" or "node".
	Role string `json:"role"`
	// On tells whether the machine is switched on, Connected whether its
	// cable is plugged in.
	On        bool `json:"on"`
	Connected bool `json:"connected"`
	// Ready is the node's condition in Kubernetes.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// IP is its address in the cluster's network.
	IP string `json:"ip"`
	// MemoryBytes is the resident memory of its programs and pods.
	MemoryBytes int64           `json:"memoryBytes"`
	Programs    []ProgramStatus `json:"programs"`
}

// ProgramStatus is the state of one program.
type ProgramStatus struct {
	Name    string `json:"name"`
	PID     int    `json:"pid,omitempty"`
	Running bool   `json:"running"`
}

// AddonStatus is the state of one add-on.
type AddonStatus struct {
	Name string `json:"name"`
	api.State
}

// Status looks at the whole cluster. What cannot be reached is told as not
// ready; the error is for a cluster that does not exist.
func (m *Manager) Status(ctx context.Context) (Status, error) {
	s, err := m.Cluster.Load()
	if err != nil {
		return Status{}, err
	}
	st := Status{
		Name: m.Cluster.Name, State: m.Cluster.Dir, Kubeconfig: m.Cluster.Kubeconfig(),
		API:       APIStatus{URL: fmt.Sprintf("https://127.0.0.1:%d", s.APIPort)},
		Forwarder: programStatus("forwarder", m.forwarder().Identity),
	}
	creds, err := controlplane.OpenCredentials(m.Cluster)
	if err != nil {
		return Status{}, err
	}
	client, err := m.client(creds, s.APIPort)
	if err != nil {
		return Status{}, err
	}
	st.API.State = stateOf(client.Ready(ctx))
	nodes := map[string]api.State{}
	if st.API.Ready {
		if nodes, err = client.Nodes(ctx); err != nil {
			st.API.State = stateOf(err)
		}
	}
	st.Machines = m.machineStatuses(s, nodes, st.API.State)
	st.Addons = addonStatuses(ctx, client, s, st.API.State)
	if pids, err := m.trees.Processes(m.group()); err == nil {
		st.MemoryBytes = process.Memory(pids)
	}
	st.Healthy = st.healthy()
	return st, nil
}

func stateOf(err error) api.State {
	if err != nil {
		return api.State{Reason: err.Error()}
	}
	return api.State{Ready: true}
}

func (m *Manager) machineStatuses(s cluster.Settings, nodes map[string]api.State, server api.State) []MachineStatus {
	cp := m.machineStatus(cluster.ControlPlane, controlplane.Names(s))
	cp.Role, cp.IP, cp.Connected = "control-plane", network.ControlPlaneIP, cp.On
	cp.Ready, cp.Reason = server.Ready, server.Reason
	all := []MachineStatus{cp}
	space, err := m.space(cluster.ControlPlane)
	if err == nil {
		defer space.Close()
	}
	for i, name := range s.NodeNames() {
		n := m.machineStatus(name, node.Names())
		n.Role, n.IP = "node", network.NodeIP(i+1).String()
		n.Connected = space != nil && n.On && network.Connected(space, name)
		n.Ready, n.Reason = nodes[name].Ready, nodes[name].Reason
		if _, known := nodes[name]; !known {
			n.Reason = "NotRegistered"
		}
		all = append(all, n)
	}
	return all
}

func (m *Manager) machineStatus(name string, programs []string) MachineStatus {
	mc := m.machine(name)
	st := MachineStatus{Name: name, On: mc.On(), MemoryBytes: mc.Memory()}
	for _, p := range programs {
		st.Programs = append(st.Programs, programStatus(p, mc.Process(p)))
	}
	return st
}

func programStatus(name string, id process.Identity) ProgramStatus {
	if !id.Alive() {
		return ProgramStatus{Name: name}
	}
	return ProgramStatus{Name: name, PID: id.PID, Running: true}
}

func addonStatuses(ctx context.Context, client *api.Client, s cluster.Settings, server api.State) []AddonStatus {
	var all []AddonStatus
	add := func(name string, look func() (api.State, error)) {
		st := AddonStatus{Name: name, State: api.State{Reason: "API server not ready"}}
		if server.Ready {
			state, err := look()
			if st.State = state; err != nil {
				st.State = stateOf(err)
			}
		}
		all = append(all, st)
	}
	deployments, daemonSets := workloads(s)
	for _, d := range deployments {
		add(d.Name, func() (api.State, error) { return client.Deployment(ctx, d.Namespace, d.Name) })
	}
	for _, d := range daemonSets {
		add(d.Name, func() (api.State, error) { return client.DaemonSet(ctx, d.Namespace, d.Name) })
	}
	if slices.Contains(s.Addons, addon.Metrics) {
		add("metrics API", func() (api.State, error) { return client.Metrics(ctx, s.NodeNames()) })
	}
	add(controlplane.CSIName, func() (api.State, error) {
		return client.Drivers(ctx, controlplane.CSIName, s.NodeNames())
	})
	return all
}

// healthy tells whether every part is as "up" would leave it.
func (st Status) healthy() bool {
	ok := st.API.Ready && st.Forwarder.Running
	for _, mc := range st.Machines {
		ok = ok && mc.On && mc.Connected && mc.Ready
		for _, p := range mc.Programs {
			ok = ok && p.Running
		}
	}
	for _, a := range st.Addons {
		ok = ok && a.Ready
	}
	return ok
}
