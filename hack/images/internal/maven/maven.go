// SPDX-License-Identifier: Apache-2.0

// Package maven gets the jars of images from the repositories that the host's Maven client knows, and holds them to a
// committed list.
package maven

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/zeroinfra/hack/images/internal/command"
)

const (
	// goal lists the files of all runtime dependencies, after it has downloaded them.
	goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
	hint = "images with Maven artifacts need a Maven client to fetch them: install Debian's package maven"
)

// ErrLock marks an error that a renewed list of artifacts solves.
var ErrLock = errors.New("the list of Maven artifacts does not match")

// Project says which artifacts are wanted: the runtime dependencies of a project object model, with what these depend
// on.
type Project struct {
	Pom []byte
	// Properties are given to Maven, and override those of the model.
	Properties map[string]string
}

// Sum identifies the project: two projects with the same sum have the same model and properties.
func (p Project) Sum() string {
	h := sha256.New()
	h.Write(p.Pom)
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		fmt.Fprintf(h, "\n%s=%s", name, p.Properties[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Jar is a file on disk whose digest is that of its artifact.
type Jar struct {
	Artifact
	Path string
}

// Repository is a local repository of Maven, locked for this process.
type Repository struct {
	dir  string
	lock *os.File
}

// Open makes or reuses the repository in a cache folder, and waits for its lock. The repository of the host's user is
// not used.
func Open(cache string) (*Repository, error) {
	r := &Repository{dir: filepath.Join(cache, "maven")}
	if err := os.MkdirAll(r.files(), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make Maven repository: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(r.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open lock of Maven repository: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot lock Maven repository %q: %w", r.dir, err)
	}
	r.lock = lock
	return r, nil
}

// Close gives the repository free for other processes.
func (r *Repository) Close() error { return r.lock.Close() }

func (r *Repository) files() string { return filepath.Join(r.dir, "repository") }

func (r *Repository) path(a Artifact) string {
	return filepath.Join(r.files(), filepath.FromSlash(a.file()))
}

// Fetch returns the jars of a list, which must be what the project resolves to. Those that are in the repository
// already, with the right digest, are not fetched again; when all are, Maven does not run.
func (r *Repository) Fetch(ctx context.Context, p Project, lock Lock) ([]Jar, error) {
	if lock.Project != p.Sum() {
		return nil, fmt.Errorf("%w: it was made from another project object model, or with other properties", ErrLock)
	}
	complete, err := r.removeDamaged(lock)
	if err != nil {
		return nil, err
	}
	if !complete {
		resolved, err := r.Resolve(ctx, p)
		if err != nil {
			return nil, err
		}
		if found := differences(lock.Artifacts, resolved.Artifacts); len(found) > 0 {
			return nil, fmt.Errorf("%w:\n  %s", ErrLock, strings.Join(found, "\n  "))
		}
	}
	var jars []Jar
	for _, a := range lock.Artifacts {
		jars = append(jars, Jar{Artifact: a, Path: r.path(a)})
	}
	return jars, nil
}

// removeDamaged removes files whose digest is not the listed one, since Maven does not check what it has already, and
// tells whether all files are there.
func (r *Repository) removeDamaged(lock Lock) (complete bool, err error) {
	complete = true
	for _, a := range lock.Artifacts {
		sum, err := fileSum(r.path(a))
		if err == nil && sum == a.SHA256 {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("cannot check Maven artifact %s: %w", a.Coordinates, err)
		}
		complete = false
		if err := os.RemoveAll(filepath.Dir(r.path(a))); err != nil {
			return false, err
		}
	}
	return complete, nil
}

// Resolve has Maven download what the project needs and returns the list of it.
func (r *Repository) Resolve(ctx context.Context, p Project) (Lock, error) {
	dir, err := os.MkdirTemp(r.dir, "project-*")
	if err != nil {
		return Lock{}, err
	}
	defer os.RemoveAll(dir)
	pom, output := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "files")
	if err := os.WriteFile(pom, p.Pom, 0o644); err != nil {
		return Lock{}, err
	}
	args := []string{
		// Without -U an artifact that was once not found is not looked for again for a day.
		"-q", "-B", "-U", goal, "-f", pom, "-Dmaven.repo.local=" + r.files(),
		"-DincludeScope=runtime", "-Dmdep.outputFile=" + output, "-Dmdep.pathSeparator=\n",
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		args = append(args, "-D"+name+"="+p.Properties[name])
	}
	if _, err := (command.Command{Name: "mvn", Args: args, Dir: dir, Hint: hint}).Output(ctx); err != nil {
		return Lock{}, fmt.Errorf("cannot fetch Maven artifacts: %w", err)
	}
	files, err := os.ReadFile(output)
	if err != nil {
		return Lock{}, fmt.Errorf("cannot read what Maven resolved: %w", err)
	}
	lock := Lock{Project: p.Sum()}
	for _, file := range strings.Fields(string(files)) {
		a, err := r.artifact(file)
		if err != nil {
			return Lock{}, fmt.Errorf("cannot read what Maven resolved: %w", err)
		}
		lock.Artifacts = append(lock.Artifacts, a)
	}
	slices.SortFunc(lock.Artifacts, byCoordinates)
	return lock, nil
}

// artifact describes a file of the repository.
func (r *Repository) artifact(file string) (Artifact, error) {
	inside, err := filepath.Rel(r.files(), file)
	if err != nil {
		return Artifact{}, err
	}
	of, err := coordinates(filepath.ToSlash(inside))
	if err != nil {
		return Artifact{}, err
	}
	sum, err := fileSum(file)
	return Artifact{Coordinates: of, SHA256: sum}, err
}

func fileSum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}
