// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/build"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/image"
	"github.com/zeroinfra/hack/devcluster/internal/machine"
)

// Addons gives a cluster that is up optional add-ons, which it keeps.
func (m *Manager) Addons(ctx context.Context, names []string) error {
	s, err := m.Cluster.Load()
	if err != nil {
		return err
	}
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !m.controlPlane().On() {
		return errors.New("cannot install an add-on into a cluster that is off: run \"devcluster up\"")
	}
	s.Addons = addon.Join(s.Addons, names...)
	u, err := m.prepare(ctx, s)
	if err != nil {
		return err
	}
	if err := each(s.NodeNames(), func(name string) error {
		n := u.machine(name)
		if !n.On() {
			return nil // it gets them when it is switched on
		}
		return u.loadOwn(ctx, n)
	}); err != nil {
		return err
	}
	if err := u.applyAddons(ctx); err != nil {
		return err
	}
	return u.awaitAddons(ctx)
}

// optional is an add-on with the folder of what was built for it.
type optional struct {
	addon.Optional
	bin string
}

// build builds the programs of the cluster and of its optional add-ons.
func (u *bringUp) build(ctx context.Context) error {
	bin, folders, err := u.Builder.Ensure(ctx, u.settings.Addons...)
	if err != nil {
		return err
	}
	u.bin = bin
	for i, name := range u.settings.Addons {
		o, err := addon.FindOptional(name)
		if err != nil {
			return err
		}
		u.optionals = append(u.optionals, optional{o, folders[i]})
	}
	return nil
}

// place returns where a program of the control plane is inside its machine. Those of add-ons are brought there: the
// folder of all others is the one with which the machine was switched on.
func (u *bringUp) place(cp *machine.Machine, p machine.Program) (string, error) {
	for _, o := range u.optionals {
		if !slices.Contains(o.OnControlPlane, p.Name) {
			continue
		}
		inside := path.Join("/var/lib/addons", filepath.Base(o.bin), p.Name)
		if _, err := os.Stat(cp.Path(inside)); err == nil {
			return inside, nil
		}
		if err := os.MkdirAll(cp.Path(path.Dir(inside)), 0o755); err != nil {
			return "", fmt.Errorf("cannot make the folder of program %q: %w", p.Name, err)
		}
		if err := build.CopyFile(filepath.Join(o.bin, p.Name), cp.Path(inside)); err != nil {
			return "", fmt.Errorf("cannot bring program %q to the control plane: %w", p.Name, err)
		}
		return inside, nil
	}
	return p.Path, nil
}

// writeImages writes the images of all add-ons, the pause image first.
func (u *bringUp) writeImages() ([]*image.Archive, error) {
	all, err := addon.WriteImages(u.Cluster.Path("images"), u.bin, u.installed.Busybox)
	if err != nil {
		return nil, err
	}
	for _, o := range u.optionals {
		archives, err := o.WriteImages(u.Cluster.Path("addons", o.Name), o.bin)
		if err != nil {
			return nil, err
		}
		all = append(all, archives...)
	}
	return all, nil
}

// applyAddons applies the optional add-ons and starts their programs on the control plane.
func (u *bringUp) applyAddons(ctx context.Context) error {
	for _, o := range u.optionals {
		if err := u.applyAddon(ctx, o); err != nil {
			return err
		}
		if err := u.ensurePrograms(ctx, u.controlPlane(), o.OnControlPlane); err != nil {
			return err
		}
	}
	return nil
}

// applyAddon applies the add-on's definitions, if it has any, and then the rest.
func (u *bringUp) applyAddon(ctx context.Context, o optional) error {
	if o.Definitions != "" {
		definitions, err := os.ReadFile(filepath.Join(o.bin, o.Definitions))
		if err != nil {
			return fmt.Errorf("cannot read the definitions of add-on %q: %w", o.Name, err)
		}
		if err := u.apply(ctx, definitions); err != nil {
			return err
		}
	}
	manifests, err := o.Render(u.creds)
	if err != nil {
		return err
	}
	return u.apply(ctx, manifests)
}

// awaitAddons waits until the optional add-ons work.
func (u *bringUp) awaitAddons(ctx context.Context) error {
	for _, o := range u.optionals {
		start := time.Now()
		if err := u.awaitAddon(ctx, o); err != nil {
			return err
		}
		u.timed("add-on "+o.Name+" is ready", start)
	}
	return nil
}

func (u *bringUp) awaitAddon(ctx context.Context, o optional) error {
	if err := u.awaitDeployments(ctx, o.Deployments()); err != nil {
		return err
	}
	for _, d := range o.DaemonSets() {
		if err := awaitState(ctx, d.Name+" becoming available", func(ctx context.Context) (api.State, error) {
			return u.client.DaemonSet(ctx, d.Namespace, d.Name)
		}); err != nil {
			return err
		}
	}
	if o.Name == addon.Metrics {
		if err := awaitState(ctx, "metrics of all nodes", func(ctx context.Context) (api.State, error) {
			return u.client.Metrics(ctx, u.settings.NodeNames())
		}); err != nil {
			return err
		}
	}
	if o.Probe != "" {
		if err := u.apply(ctx, []byte(o.Probe), "--dry-run=server"); err != nil {
			return err
		}
	}
	return alive(u.controlPlane(), o.OnControlPlane...)
}

// awaitDeployments waits until workloads are available.
func (u *bringUp) awaitDeployments(ctx context.Context, all []addon.Deployment) error {
	for _, d := range all {
		if err := awaitState(ctx, d.Name+" becoming available", func(ctx context.Context) (api.State, error) {
			return u.client.Deployment(ctx, d.Namespace, d.Name)
		}); err != nil {
			return err
		}
	}
	return nil
}

// workloads lists those of all add-ons of a cluster: Deployments and DaemonSets.
func workloads(s cluster.Settings) (deployments, daemonSets []addon.Deployment) {
	deployments = addon.Deployments()
	for _, name := range s.Addons {
		if o, err := addon.FindOptional(name); err == nil {
			deployments, daemonSets = append(deployments, o.Deployments()...), append(daemonSets, o.DaemonSets()...)
		}
	}
	return deployments, daemonSets
}
