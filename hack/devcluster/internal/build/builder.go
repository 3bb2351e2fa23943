// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
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

// job is one file with the places where it is made from and to.
type job struct {
	component Component
	name      string
	dir       string // folder in the cache
	make      func(ctx context.Context, out string) error
}

// Ensure builds what the cache lacks and returns a folder that holds all
// programs under their own names. Programs that are there are not touched.
func (b *Builder) Ensure(ctx context.Context) (string, error) {
	return b.EnsureServer(ctx, OwnServer)
}

// EnsureServer does the same for an API server: with one that is not the cluster's own, the folder
// holds just that and etcd.
func (b *Builder) EnsureServer(ctx context.Context, server APIServer) (string, error) {
	components, err := componentsFor(server)
	if err != nil {
		return "", err
	}
	return b.ensure(ctx, components)
}

// EnsureOptional does the same for one of the optional components.
func (b *Builder) EnsureOptional(ctx context.Context, name string) (string, error) {
	for _, c := range Optional() {
		if c.Name == name {
			return b.ensure(ctx, []Component{c})
		}
	}
	return "", fmt.Errorf("cannot find component %q", name)
}

func (b *Builder) ensure(ctx context.Context, components []Component) (string, error) {
	jobs, key, err := b.plan(ctx, components)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(b.Cache, "bin-"+key)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return "", fmt.Errorf("cannot create cache %q: %w", b.Cache, err)
	}
	unlock, err := lock(filepath.Join(b.Cache, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	var missing []job
	for _, j := range jobs {
		if _, err := os.Stat(filepath.Join(j.dir, j.name)); err != nil {
			missing = append(missing, j)
		}
	}
	for i, j := range missing {
		start := time.Now()
		b.Progress("building %s %s (%d/%d) …", j.name, j.component.Version, i+1, len(missing))
		if err := j.run(ctx); err != nil {
			return "", fmt.Errorf("cannot build %q: %w", j.name, err)
		}
		b.Progress("built %s in %s", j.name, time.Since(start).Round(time.Second))
	}
	return bin, gather(bin, jobs)
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
		dir := filepath.Join(b.Cache, name)
		for _, program := range c.Binaries {
			jobs = append(jobs, job{c, program.Name, dir, func(ctx context.Context, out string) error {
				return compile(ctx, source, c, program, out)
			}})
		}
		for _, m := range c.Manifests {
			jobs = append(jobs, job{c, m.Name, dir, func(ctx context.Context, out string) error { return m.write(ctx, source, out) }})
		}
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
		if err != nil || e.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(path)) {
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

// run makes the file beside its final place and moves it there.
func (j job) run(ctx context.Context) error {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(j.dir, ".building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, j.name)
	if err := j.make(ctx, out); err != nil {
		return err
	}
	return os.Rename(out, filepath.Join(j.dir, j.name))
}

// compile builds one program of a component.
func compile(ctx context.Context, source string, c Component, program Binary, out string) error {
	flags := "-s -w"
	for _, v := range c.Variables {
		flags += " -X " + v
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", out, program.Package)
	cmd.Dir = source
	cmd.Env = Environ()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(log.String(), 20))
	}
	return nil
}

// gather makes one folder with a hard link to every program.
func gather(bin string, jobs []job) error {
	tmp, err := os.MkdirTemp(filepath.Dir(bin), ".bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := os.Link(filepath.Join(j.dir, j.name), filepath.Join(tmp, j.name)); err != nil {
			return fmt.Errorf("cannot gather %q: %w", j.name, err)
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

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
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
