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

	"github.com/zeroinfra/hack/devcluster/internal/addon"
	"github.com/zeroinfra/hack/devcluster/internal/api"
	"github.com/zeroinfra/hack/devcluster/internal/cluster"
	"github.com/zeroinfra/hack/devcluster/internal/image"
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
	return u.installAddons(ctx)
}

// optional is an add-on with the folder of what was built for it.
type optional struct {
	addon.Optional
	bin string
}

// prepareAddons builds the optional add-ons of the settings.
func (u *bringUp) prepareAddons(ctx context.Context) error {
	for _, name := range u.settings.Addons {
		o, err := addon.FindOptional(name)
		if err != nil {
			return err
		}
		bin, err := u.Builder.EnsureOptional(ctx, o.Name)
		if err != nil {
			return err
		}
		u.optionals = append(u.optionals, optional{o, bin})
	}
	return nil
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

// installAddons installs the optional add-ons and waits until they work.
func (u *bringUp) installAddons(ctx context.Context) error {
	for _, o := range u.optionals {
		start := time.Now()
		if err := u.applyAddon(ctx, o); err != nil {
			return err
		}
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
		if o.Probe != "" {
			if err := u.apply(ctx, []byte(o.Probe), "--dry-run=server"); err != nil {
				return err
			}
		}
		u.timed("add-on "+o.Name+" is ready", start)
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
	manifests, err := o.Render()
	if err != nil {
		return err
	}
	return u.apply(ctx, manifests)
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
