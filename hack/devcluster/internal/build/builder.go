// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Builder compiles components into a cache.
type Builder struct {
	// Sources is the folder components/ with one module per component.
	Sources string
	// Cache is the folder that keeps the programs between clusters.
	Cache string
	// Progress is told one line per program that has to be built.
	Progress func(format string, args ...any)
}

// job is one component with what has to be made of it.
type job struct {
	component Component
	source    string // folder of its module
	dir       string // folder in the cache
}

// Ensure builds what the cache lacks of the components that every cluster has
// and of the named optional ones. It returns a folder that holds the programs
// of the former under their own names, and one for each of the latter.
// Programs that are there are not touched.
func (b *Builder) Ensure(ctx context.Context, optional ...string) (string, []string, error) {
	sets := [][]Component{Components()}
	for _, name := range optional {
		c, err := findOptional(name)
		if err != nil {
			return "", nil, err
		}
		sets = append(sets, []Component{c})
	}
	folders, err := b.ensure(ctx, sets...)
	if err != nil {
		return "", nil, err
	}
	return folders[0], folders[1:], nil
}

// EnsureServer does the same for an API server: with one that is not the cluster's own, the folder
// holds just that and etcd.
func (b *Builder) EnsureServer(ctx context.Context, server APIServer) (string, error) {
	components, err := componentsFor(server)
	if err != nil {
		return "", err
	}
	folders, err := b.ensure(ctx, components)
	if err != nil {
		return "", err
	}
	return folders[0], nil
}

// ensure makes a folder for each set of components.
func (b *Builder) ensure(ctx context.Context, sets ...[]Component) ([]string, error) {
	var all []job
	plans := make([][]job, len(sets))
	folders := make([]string, len(sets))
	found := 0
	for i, set := range sets {
		jobs, key, err := b.plan(ctx, set)
		if err != nil {
			return nil, err
		}
		plans[i], folders[i] = jobs, filepath.Join(b.Cache, "bin-"+key)
		all = append(all, jobs...)
		if _, err := os.Stat(folders[i]); err == nil {
			found++
		}
	}
	if found == len(sets) {
		return folders, nil
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create cache %q: %w", b.Cache, err)
	}
	unlock, err := lock(filepath.Join(b.Cache, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := b.run(ctx, all); err != nil {
		return nil, err
	}
	for i, jobs := range plans {
		if err := gather(folders[i], jobs); err != nil {
			return nil, err
		}
	}
	return folders, nil
}

// run does the jobs whose files are not all there.
func (b *Builder) run(ctx context.Context, jobs []job) error {
	var missing []job
	for _, j := range jobs {
		if len(j.missing()) > 0 {
			missing = append(missing, j)
		}
	}
	b.fetch(ctx, missing)
	for i, j := range missing {
		start := time.Now()
		files := strings.Join(j.missing(), ", ")
		b.Progress("building %s %s (%d/%d): %s …", j.component.Name, j.component.Version, i+1, len(missing), files)
		if err := j.run(ctx); err != nil {
			return fmt.Errorf("cannot build %q: %w", j.component.Name, err)
		}
		b.Progress("built %s in %s", j.component.Name, time.Since(start).Round(time.Second))
	}
	return nil
}

// Folder returns the folder of all programs, or an error that names the verb
// to run when they have not been built yet.
func (b *Builder) Folder(ctx context.Context) (string, error) {
	return b.FolderServer(ctx, OwnServer)
}

// FolderServer does the same for an API server.
func (b *Builder) FolderServer(ctx context.Context, server APIServer) (string, error) {
	components, err := componentsFor(server)
	if err != nil {
		return "", err
	}
	_, key, err := b.plan(ctx, components)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(b.Cache, "bin-"+key)
	if _, err := os.Stat(bin); err != nil {
		build := "devcluster build"
		if server != OwnServer {
			build += " --api-server " + string(server)
		}
		return "", fmt.Errorf("cannot find the programs in %q: run %q first", bin, build)
	}
	return bin, nil
}

// plan lists all files to make and a key that changes with any of their inputs.
func (b *Builder) plan(ctx context.Context, components []Component) ([]job, string, error) {
	toolchain, err := goVersion(ctx)
	if err != nil {
		return nil, "", err
	}
	var jobs []job
	all := sha256.New()
	for _, c := range components {
		source := filepath.Join(b.Sources, c.Dir())
		sum, err := fingerprint(source, c, toolchain)
		if err != nil {
			return nil, "", fmt.Errorf("cannot read the module of component %q: %w", c.Name, err)
		}
		name := c.Name + "-" + strings.TrimPrefix(c.Version, "v") + "-" + sum
		fmt.Fprintln(all, name)
		jobs = append(jobs, job{c, source, filepath.Join(b.Cache, name)})
	}
	return jobs, hex.EncodeToString(all.Sum(nil))[:12], nil
}

// fingerprint hashes everything that a component's programs depend on: its
// module files and sources, the linker's variables and the Go version.
func fingerprint(dir string, c Component, toolchain string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, toolchain, c.Variables, c.Binaries)
	if len(c.Manifests) > 0 {
		fmt.Fprintln(h, c.Manifests)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, "_test.go") ||
			!slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, len(data))
		h.Write(data)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// gather makes one folder with a hard link to every program, unless it is there.
func gather(bin string, jobs []job) error {
	if _, err := os.Stat(bin); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(bin), ".bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for _, j := range jobs {
		for _, name := range j.component.Files() {
			if err := os.Link(filepath.Join(j.dir, name), filepath.Join(tmp, name)); err != nil {
				return fmt.Errorf("cannot gather %q: %w", name, err)
			}
		}
	}
	if err := os.Rename(tmp, bin); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("cannot create %q: %w", bin, err)
	}
	return nil
}

// lock takes an exclusive lock on a file, waiting for its holder, so that two
// builds at the same time do the work once.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open lock %q: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %q: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// CopyFile copies a regular file with its mode, replacing dst at once.
func CopyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(dst), ".copy-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Chmod(info.Mode().Perm()); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), dst)
}
