// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// missing lists the files of a component that are not in the cache.
func (j job) missing() []string {
	var names []string
	for _, name := range j.component.Files() {
		if _, err := os.Stat(filepath.Join(j.dir, name)); err != nil {
			names = append(names, name)
		}
	}
	return names
}

// run makes the files beside their final place and moves them there.
func (j job) run(ctx context.Context) error {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(j.dir, ".building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	missing := j.missing()
	var programs []Binary
	for _, program := range j.component.Binaries {
		if slices.Contains(missing, program.Name) {
			programs = append(programs, program)
		}
	}
	if err := j.compile(ctx, programs, tmp); err != nil {
		return err
	}
	for _, m := range j.component.Manifests {
		if slices.Contains(missing, m.Name) {
			if err := m.write(ctx, j.source, filepath.Join(tmp, m.Name)); err != nil {
				return err
			}
		}
	}
	for _, name := range missing {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(j.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// compile builds programs into a folder. One run of Go links some while it compiles others.
func (j job) compile(ctx context.Context, programs []Binary, dir string) error {
	if len(programs) == 0 {
		return nil
	}
	// Go names what it puts into a folder after the packages, so each run has a folder of its own.
	out := filepath.Join(dir, ".out") + string(filepath.Separator)
	flags := "-s -w"
	for _, v := range j.component.Variables {
		flags += " -X " + v
	}
	args := append([]string{"build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", out}, packages(programs)...)
	if _, err := j.golang(ctx, nil, args...); err != nil {
		return err
	}
	for _, program := range programs {
		made := program.Name
		if program.Package != "." {
			made = executable(program.Package)
		} else if files, err := os.ReadDir(out); err == nil && len(files) == 1 {
			made = files[0].Name()
		}
		if err := os.Rename(filepath.Join(out, made), filepath.Join(dir, program.Name)); err != nil {
			return fmt.Errorf("cannot find the program of package %q: %w", program.Package, err)
		}
	}
	return nil
}

// golang runs the go command in the component's module. It is interrupted, not killed, when ctx ends, so that the
// compilers it has started end with it. The error holds the end of what it said.
func (j job) golang(ctx context.Context, env []string, args ...string) (string, error) {
	const patience = 5 * time.Second
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = j.source, append(Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		const lines = 20
		return "", fmt.Errorf("%w\n%s", err, tail(log.String(), lines))
	}
	return out.String(), nil
}

// fetch downloads the modules of all jobs side by side, so that no compiler waits for the network later. What cannot
// be fetched is told when it is compiled.
func (b *Builder) fetch(ctx context.Context, jobs []job) {
	if len(jobs) == 0 {
		return
	}
	// Go fetches as many modules at a time as it may use processors.
	env := []string{"GOMAXPROCS=16"}
	start := time.Now()
	b.Progress("fetching the modules of %d components …", len(jobs))
	var wg sync.WaitGroup
	for _, j := range jobs {
		wg.Go(func() {
			list := []string{"list", "-mod=readonly", "-deps", "-f", "{{with .Error}}{{.}}{{end}}"}
			_, _ = j.golang(ctx, env, append(list, packages(j.component.Binaries)...)...)
			for _, m := range j.component.Manifests {
				_, _ = j.golang(ctx, env, "mod", "download", m.Module)
			}
		})
	}
	wg.Wait()
	b.Progress("fetched the modules in %s", time.Since(start).Round(time.Second))
}

func packages(programs []Binary) []string {
	paths := make([]string, len(programs))
	for i, program := range programs {
		paths[i] = program.Package
	}
	return paths
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// executable is the name that Go gives to the program of a package: the last element of its path that is no version.
func executable(pkg string) string {
	if base := path.Base(pkg); !majorVersion.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(pkg))
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
