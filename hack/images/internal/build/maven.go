// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/maven"
	"github.com/zeroinfra/hack/images/internal/rootfs"
)

// Lock has Maven resolve the artifacts of an image and returns the text of the list of them, which belongs beside the
// definition under the image's LockName.
func (b *Builder) Lock(ctx context.Context, image *definition.Image) (text []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot list Maven artifacts of %q: %w", image.Reference(), err)
		}
	}()
	if image.Maven == nil {
		return nil, errors.New("its definition has no maven part")
	}
	repository, err := maven.Open(b.Cache)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, repository.Close()) }()
	lock, err := repository.Resolve(ctx, project(image.Maven))
	return lock.Format(), err
}

func project(a *definition.Artifacts) maven.Project {
	return maven.Project{Pom: a.Pom, Properties: a.Properties}
}

// readLock reads the list of Maven artifacts of an image that has some.
func readLock(image *definition.Image) (maven.Lock, error) {
	if image.Maven == nil {
		return maven.Lock{}, nil
	}
	if len(image.Maven.Lock) == 0 {
		return maven.Lock{}, fmt.Errorf(
			"there is no list %q of its Maven artifacts beside its definition: run \"images lock %s:%s\"", image.LockName(),
			image.Name, image.Tag)
	}
	lock, err := maven.ParseLock(image.Maven.Lock)
	if err != nil {
		return lock, fmt.Errorf("%s: %w: run \"images lock %s:%s\" to write it again",
			image.LockName(), err, image.Name, image.Tag)
	}
	return lock, nil
}

// fetchJars gets the Maven artifacts of an image.
func (b *Builder) fetchJars(ctx context.Context, image *definition.Image) (jars []maven.Jar, err error) {
	lock, err := readLock(image)
	if image.Maven == nil || err != nil {
		return nil, err
	}
	repository, err := maven.Open(b.Cache)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, repository.Close()) }()
	jars, err = repository.Fetch(ctx, project(image.Maven), lock)
	if errors.Is(err, maven.ErrLock) {
		return nil, fmt.Errorf(
			"%s: %w\nwhen the change is intended, run \"images lock %s:%s\" to renew the list, and review it",
			image.LockName(), err, image.Name, image.Tag)
	}
	return jars, err
}

// putArtifacts adds Maven artifacts in a layer of their own: jars as they are, and what is wanted of zips unpacked.
func putArtifacts(tree *rootfs.Tree, image *definition.Image, files []maven.Jar) error {
	if image.Maven == nil {
		return nil
	}
	tree.StartLayer("Maven artifacts")
	for _, file := range files {
		put := putJar
		if file.IsZip() {
			put = putZip
		}
		if err := put(tree, image.Maven, file); err != nil {
			return fmt.Errorf("cannot add Maven artifact %s: %w", file.Coordinates, err)
		}
	}
	return nil
}

func putJar(tree *rootfs.Tree, a *definition.Artifacts, jar maven.Jar) error {
	e := rootfs.Entry{Path: path.Join(a.Directory, jar.FileName()), Mode: 0o644, Origin: origin(jar)}
	return tree.PutHostFile(e, jar.Path)
}

func origin(jar maven.Jar) string { return "Maven artifact " + jar.Coordinates }

// putZip adds the files of a zip that a pattern matches. Each pattern must match one.
func putZip(tree *rootfs.Tree, a *definition.Artifacts, jar maven.Jar) (err error) {
	archive, err := zip.OpenReader(jar.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	unused := slices.Clone(a.Unpack)
	for _, f := range archive.File {
		i := slices.IndexFunc(a.Unpack, func(pattern string) bool { return within(pattern, f.Name) })
		if i < 0 || f.FileInfo().IsDir() {
			continue
		}
		pattern := a.Unpack[i]
		unused = slices.DeleteFunc(unused, func(p string) bool { return p == pattern })
		e := rootfs.Entry{Path: path.Join(a.Directory, f.Name), Mode: 0o644, Origin: origin(jar)}
		if err := putZipped(tree, e, f); err != nil {
			return err
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("maven.unpack has patterns that match no file of it: %s", strings.Join(unused, ", "))
	}
	return nil
}

func putZipped(tree *rootfs.Tree, e rootfs.Entry, f *zip.File) (err error) {
	if !f.Mode().IsRegular() || !filepath.IsLocal(f.Name) {
		return fmt.Errorf("%q is not a regular file below the folder", f.Name)
	}
	if f.Mode()&0o111 != 0 {
		e.Mode = 0o755
	}
	content, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return tree.PutFile(e, content)
}

// within tells whether a file, or a folder that it is in, matches a shell pattern.
func within(pattern, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}
