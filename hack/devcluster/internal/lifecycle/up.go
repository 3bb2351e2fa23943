// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/controlplane"
	"github.com/zeroinfra/hack/devcluster/internal/host"
	"github.com/zeroinfra/hack/devcluster/internal/image"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
	"github.com/zeroinfra/hack/devcluster/internal/network"
	"github.com/zeroinfra/hack/devcluster/internal/node"
)

// Limits of the waits of "up"; each is far above what a slow machine takes.
const (
	componentLimit = 2 * time.Minute
	readyLimit     = 4 * time.Minute
)

// bringUp is one run of "up".
type bringUp struct {
	*Manager
	settings  cluster.Settings
	bin       string
	installed host.Installed
	creds     *controlplane.Credentials
	client    *api.Client
	began     time.Time // no node counts as ready that was not heard of since
	optionals []optional
	images    func() ([]*image.Archive, error)
}

// Up makes the cluster run with these settings, whatever state it is in. What
// runs already is not touched.
func (m *Manager) Up(ctx context.Context, s cluster.Settings) error {
	start := time.Now()
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.checkChange(s); err != nil {
		return err
	}
	if err := m.ensurePort(ctx, s.APIPort); err != nil {
		return err
	}
	u, err := m.prepare(ctx, s)
	if err != nil {
		return err
	}
	if err := u.run(ctx); err != nil {
		return err
	}
	m.timed(fmt.Sprintf("cluster %q is up: %d nodes, API at https://127.0.0.1:%d", m.Cluster.Name, s.Nodes, s.APIPort),
		start)
	return nil
}

// prepare builds and writes everything that machines are started with.
func (m *Manager) prepare(ctx context.Context, s cluster.Settings) (*bringUp, error) {
	u := &bringUp{Manager: m, settings: s, began: time.Now()}
	var err error
	if err := u.build(ctx); err != nil {
		return nil, err
	}
	if u.installed, err = host.Locate(); err != nil {
		return nil, err
	}
	if err := m.Cluster.Save(s); err != nil {
		return nil, err
	}
	if u.creds, err = controlplane.OpenCredentials(m.Cluster); err != nil {
		return nil, err
	}
	if err := u.creds.WriteAdmin(m.Cluster, s.APIPort); err != nil {
		return nil, err
	}
	if err := cluster.WriteFile(m.Cluster.Resolv(), []byte(network.ResolvConf()), 0o644); err != nil {
		return nil, err
	}
	if u.client, err = m.client(u.creds, s.APIPort); err != nil {
		return nil, err
	}
	u.images = sync.OnceValues(u.writeImages)
	return u, nil
}

// checkChange refuses settings that an existing cluster cannot take on.
func (m *Manager) checkChange(s cluster.Settings) error {
	old, err := m.Cluster.Load()
	if errors.Is(err, cluster.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.Nodes < old.Nodes {
		return fmt.Errorf("cannot shrink cluster %q from %d to %d nodes: run \"devcluster down\" first", m.Cluster.Name,
			old.Nodes, s.Nodes)
	}
	return nil
}

// run starts the machines and waits until all is ready. Nodes get on with
// their images while the API server starts.
func (u *bringUp) run(ctx context.Context) error {
	if err := u.startControlPlane(ctx); err != nil {
		return err
	}
	ready := make(chan struct{})
	names := append([]string{""}, u.settings.NodeNames()...)
	err := each(names, func(name string) error {
		if name == "" {
			return u.awaitControlPlane(ctx, ready)
		}
		return u.startNode(ctx, name, ready)
	})
	if err != nil {
		return err
	}
	return u.awaitAll(ctx)
}

// startControlPlane switches on the control plane's machine and starts etcd
// and the API server, without waiting for them.
func (u *bringUp) startControlPlane(ctx context.Context) error {
	cp := u.controlPlane()
	on, err := cp.PowerOn(ctx, u.bin)
	if err != nil {
		return err
	}
	if on {
		u.Say("switched on the control plane")
	}
	space, err := u.space(cp.Name)
	if err != nil {
		return err
	}
	defer space.Close()
	if err := network.SetupControlPlane(space, u.settings.Nodes); err != nil {
		return err
	}
	return u.ensurePrograms(ctx, cp, []string{controlplane.Etcd, controlplane.APIServer})
}

// ensurePrograms starts programs of the control plane.
func (u *bringUp) ensurePrograms(ctx context.Context, cp *machine.Machine, names []string) error {
	programs, err := controlplane.Write(cp.Etc(), u.settings, u.creds)
	if err != nil {
		return err
	}
	for _, name := range names {
		program := programs[name]
		if program.Path, err = u.place(cp, program); err != nil {
			return err
		}
		started, err := cp.Ensure(ctx, program)
		if err != nil {
			return err
		}
		if started {
			u.Say("started %s", name)
		}
	}
	return nil
}

// awaitControlPlane waits for the API server, opens the gate for the nodes,
// starts what needs the API, and applies the add-ons.
func (u *bringUp) awaitControlPlane(ctx context.Context, ready chan<- struct{}) error {
	start := time.Now()
	// Nodes stop waiting also when this fails.
	err := u.await(ctx, controlplane.APIServer, u.client.Ready)
	close(ready)
	if err != nil {
		return err
	}
	u.timed("API server is ready", start)
	rest := []string{controlplane.ControllerManager, controlplane.Scheduler, controlplane.Proxy}
	if err := u.ensurePrograms(ctx, u.controlPlane(), rest); err != nil {
		return err
	}
	manifests, err := addon.Render(u.settings.Nodes)
	if err != nil {
		return err
	}
	if err := u.apply(ctx, manifests); err != nil {
		return err
	}
	if err := controlplane.WriteNodes(u.controlPlane(), u.settings); err != nil {
		return err
	}
	if err := u.ensureStorage(ctx, u.controlPlane()); err != nil {
		return err
	}
	return u.applyAddons(ctx)
}

// ensureStorage starts the programs that make volumes. Those that
// call the driver end, sooner or later, when it does: a new driver gets new ones.
func (u *bringUp) ensureStorage(ctx context.Context, cp *machine.Machine) error {
	if !cp.Process(controlplane.CSIDriver).Alive() {
		for _, name := range append(controlplane.Storage(), controlplane.SnapshotPrograms()...) {
			if err := cp.Halt(ctx, name); err != nil {
				return err
			}
		}
	}
	return u.ensurePrograms(ctx, cp, controlplane.Storage())
}

// await waits until a program of the control plane answers, and fails at once
// when it has ended.
func (u *bringUp) await(ctx context.Context, name string, answer func(context.Context) error) error {
	return waitFor(ctx, componentLimit, name+" becoming ready", func(ctx context.Context) error {
		err := answer(ctx)
		if err != nil {
			// The way there may be what has just died.
			return errors.Join(err, alive(u.controlPlane(), name), u.ensurePort(ctx, u.settings.APIPort))
		}
		return nil
	})
}

// apply gives manifests to the API server, as the owner of their fields.
func (u *bringUp) apply(ctx context.Context, manifests []byte, flags ...string) error {
	flags = append([]string{
		"--kubeconfig", u.Cluster.Kubeconfig(), "apply", "--server-side", "--force-conflicts", "--field-manager=devcluster",
		"-f", "-",
	}, flags...)
	return waitFor(ctx, componentLimit, "applying the add-ons", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, filepath.Join(u.bin, "kubectl"), flags...)
		cmd.Env = []string{"HOME=" + u.Cluster.Dir, "PATH=/usr/bin:/bin"}
		cmd.Stdin = bytes.NewReader(manifests)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("cannot apply the add-ons: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// startNode switches a node on, wires it, loads its images and, when the API
// server is ready, starts its kubelet.
func (u *bringUp) startNode(ctx context.Context, name string, ready <-chan struct{}) error {
	i, err := nodeIndex(u.settings, name)
	if err != nil {
		return err
	}
	n := u.machine(name)
	on, err := n.PowerOn(ctx, u.bin)
	if err != nil {
		return err
	}
	if on {
		u.Say("switched on node %s", name)
	}
	if err := u.wire(name, i); err != nil {
		return err
	}
	programs, err := node.Write(n.Etc(), node.Options{
		Index: i, Group: n.Group(), PauseImage: addon.PauseImage, Settings: u.settings,
		ContainerdPath: u.installed.Containerd, CNIDir: u.installed.CNI,
	}, u.creds)
	if err != nil {
		return err
	}
	started, err := n.Ensure(ctx, programs[node.Containerd])
	if err != nil {
		return err
	}
	if err := u.loadOwn(ctx, n); err != nil {
		return err
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, program := range []string{node.CSIDriver, node.Kubelet, node.Proxy} {
		s, err := n.Ensure(ctx, programs[program])
		if err != nil {
			return err
		}
		started = started || s
	}
	if started {
		u.Say("started node %s", name)
	}
	return nil
}

// wire joins a node to the cluster's network.
func (u *bringUp) wire(name string, i int) error {
	cp, err := u.space(cluster.ControlPlane)
	if err != nil {
		return err
	}
	defer cp.Close()
	space, err := u.space(name)
	if err != nil {
		return err
	}
	defer space.Close()
	return network.Attach(cp, space, name, i, u.settings.Nodes)
}

// loadOwn waits for a node's containerd and loads the cluster's own images.
func (u *bringUp) loadOwn(ctx context.Context, n *machine.Machine) error {
	archives, err := u.images()
	if err != nil {
		return err
	}
	err = waitFor(ctx, componentLimit, "containerd of node "+n.Name+" becoming ready", func(ctx context.Context) error {
		if _, err := os.Stat(n.Inside(node.Socket)); err != nil {
			return fmt.Errorf("no socket yet, see %s: %w", n.Log(node.Containerd), err)
		}
		_, err := n.Run(ctx, nil, "ctr", "version")
		return err
	})
	if err != nil {
		return err
	}
	loaded, err := image.Load(ctx, n, archives...)
	if err != nil {
		return err
	}
	for _, a := range loaded {
		if a.Entries[0].Name == addon.PauseImage {
			return image.Pin(ctx, n, addon.PauseImage)
		}
	}
	return nil
}

// awaitNodes waits until nodes are ready.
func (u *bringUp) awaitNodes(ctx context.Context, names ...string) error {
	return waitFor(ctx, readyLimit, "nodes becoming ready", func(ctx context.Context) error {
		for _, name := range names {
			if err := alive(u.machine(name), node.Names()...); err != nil {
				return err
			}
		}
		states, err := u.client.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if s := states[name]; !s.Ready {
				return fmt.Errorf("node %s is not ready (%s), see %s", name, s.Reason, u.machine(name).Log(node.Kubelet))
			}
			// Ready may still be what it was before it was cut or stopped.
			heard, err := u.client.Heartbeat(ctx, name)
			if err != nil {
				return err
			}
			if heard.Before(u.began) {
				return fmt.Errorf("node %s has not been heard of since %s, see %s", name, heard.Format(time.TimeOnly),
					u.machine(name).Log(node.Kubelet))
			}
		}
		return nil
	})
}

// awaitAll waits until every node and every add-on is ready.
func (u *bringUp) awaitAll(ctx context.Context) error {
	start := time.Now()
	if err := u.awaitNodes(ctx, u.settings.NodeNames()...); err != nil {
		return err
	}
	u.timed("all nodes are ready", start)
	start = time.Now()
	if err := u.awaitDeployments(ctx, addon.Deployments()); err != nil {
		return err
	}
	if err := awaitState(ctx, "CSI driver on all nodes", func(ctx context.Context) (api.State, error) {
		return u.client.Drivers(ctx, controlplane.CSIName, u.settings.NodeNames())
	}); err != nil {
		return err
	}
	u.timed("DNS and volumes are ready", start)
	if err := u.awaitAddons(ctx); err != nil {
		return err
	}
	return alive(u.controlPlane(), controlplane.Names(u.settings)...)
}

// awaitState waits until something is ready.
func awaitState(ctx context.Context, what string, state func(context.Context) (api.State, error)) error {
	return waitFor(ctx, readyLimit, what, func(ctx context.Context) error {
		s, err := state(ctx)
		if err == nil && !s.Ready {
			err = errors.New(s.Reason)
		}
		return err
	})
}
