// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zeroinfra/hack/images/internal/apt"
	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/oci"
	"github.com/zeroinfra/hack/images/internal/rootfs"
)

const ownOrigin = "the image's definition"

// write assembles the image and writes its archive.
func (b *Builder) write(ctx context.Context, in inputs, got files, key, file string) (err error) {
	tree, err := b.assemble(ctx, in, got)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	missing, err := tree.MissingLibraries()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("shared libraries are missing; add their packages or take them off exclude and prune:\n  %s",
			strings.Join(missing, "\n  "))
	}
	notes := tree.LayerNotes()
	var layers []*oci.Layer
	defer func() { err = errors.Join(err, oci.CloseAll(layers)) }()
	for _, number := range slices.Sorted(maps.Keys(notes)) {
		layer, err := oci.NewLayer(b.Cache, notes[number],
			func(w io.Writer) error { return tree.WriteLayer(w, number, b.Epoch) })
		if err != nil {
			return err
		}
		layers = append(layers, layer)
	}
	image, err := oci.Assemble(layers, config(in), b.Arch, b.Epoch)
	if err != nil {
		return err
	}
	return oci.Write(file, image, in.Image.Repository, in.Image.Tag, key)
}

// assemble puts the file system together: packages and what belongs to them in
// one layer, then one of Maven artifacts and one of programs.
func (b *Builder) assemble(ctx context.Context, in inputs, got files) (_ *rootfs.Tree, err error) {
	note := "files"
	if in.Image.Debian != nil {
		note = "Debian " + in.Image.Debian.Suite
	}
	tree, err := rootfs.New(b.Cache, note)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tree.Close())
		}
	}()
	if in.Image.Debian != nil {
		if err := putPackages(ctx, tree, in.Image.Debian, got.debs); err != nil {
			return nil, err
		}
	}
	if err := putDeclared(tree, in.Image); err != nil {
		return nil, err
	}
	if err := putArtifacts(tree, in.Image, got.jars); err != nil {
		return nil, err
	}
	tree.StartLayer("programs")
	for _, p := range in.Programs {
		if err := tree.PutHostFile(rootfs.Entry{Path: p.Path, Mode: 0o755, Origin: ownOrigin}, p.file); err != nil {
			return nil, err
		}
	}
	return tree, checkLinks(tree, in.Image)
}

func putPackages(ctx context.Context, tree *rootfs.Tree, d *definition.Debian, debs []apt.Deb) error {
	if err := tree.PutMergedUsr(); err != nil {
		return err
	}
	for _, deb := range debs {
		if err := tree.PutDeb(ctx, deb.Name, deb.Path); err != nil {
			return err
		}
	}
	if err := tree.BundleCertificates(); err != nil {
		return err
	}
	tree.Prune(d.Prune)
	if len(d.Keep) > 0 {
		tree.Keep(d.Keep)
	}
	for _, deb := range debs {
		if err := tree.PutStatus(deb.Name, deb.Control); err != nil {
			return err
		}
	}
	return nil
}

// putDeclared adds what the definition itself holds.
func putDeclared(tree *rootfs.Tree, image *definition.Image) error {
	if len(image.Users)+len(image.Groups) > 0 {
		var users []rootfs.Account
		for _, u := range image.Users {
			users = append(users, rootfs.Account(u))
		}
		var groups []rootfs.GroupLine
		for _, g := range image.Groups {
			groups = append(groups, rootfs.GroupLine{Name: g.Name, GID: g.GID})
		}
		if err := tree.PutAccounts(users, groups); err != nil {
			return err
		}
	}
	for _, d := range image.Directories {
		if err := tree.PutDir(entry(d)); err != nil {
			return err
		}
	}
	for _, f := range image.Files {
		if err := tree.PutFile(entry(f), strings.NewReader(string(f.Content))); err != nil {
			return err
		}
	}
	for _, l := range image.Symlinks {
		if l.Yields && tree.Resolve(l.Path) != nil {
			continue
		}
		if err := tree.PutSymlink(rootfs.Entry{Path: l.Path, Target: l.Target, Origin: ownOrigin}); err != nil {
			return err
		}
	}
	return nil
}

func entry(n definition.Node) rootfs.Entry {
	return rootfs.Entry{Path: n.Path, Mode: n.Mode, UID: n.UID, GID: n.GID, Origin: ownOrigin}
}

// checkLinks refuses declared links to nothing; /proc is only there in a running container.
func checkLinks(tree *rootfs.Tree, image *definition.Image) error {
	for _, l := range image.Symlinks {
		target := l.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(l.Path), target)
		}
		if !strings.HasPrefix(target, "/proc/") && tree.Resolve(l.Path) == nil {
			return fmt.Errorf("symbolic link %q points to %q, which is not in the image", l.Path, l.Target)
		}
	}
	return nil
}

// config is the part of the image that says how containers run.
func config(in inputs) v1.Config {
	c := in.Image.Config
	labels := map[string]string{
		"org.opencontainers.image.title":       in.Image.Name,
		"org.opencontainers.image.description": in.Image.About,
		"org.opencontainers.image.version":     in.Version,
	}
	maps.Copy(labels, c.Labels)
	out := v1.Config{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, User: c.User, WorkingDir: c.WorkingDir, Labels: labels,
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		out.Env = append(out.Env, name+"="+c.Env[name])
	}
	for _, port := range c.Ports {
		if out.ExposedPorts == nil {
			out.ExposedPorts = map[string]struct{}{}
		}
		out.ExposedPorts[port] = struct{}{}
	}
	return out
}
