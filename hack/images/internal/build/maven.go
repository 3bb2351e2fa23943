// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"path"

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

// putJars adds Maven artifacts in a layer of their own.
func putJars(tree *rootfs.Tree, image *definition.Image, jars []maven.Jar) error {
	if image.Maven == nil {
		return nil
	}
	tree.StartLayer("Maven artifacts")
	for _, jar := range jars {
		e := rootfs.Entry{
			Path: path.Join(image.Maven.Directory, jar.FileName()), Mode: 0o644,
			Origin: "Maven artifact " + jar.Coordinates,
		}
		if err := tree.PutHostFile(e, jar.Path); err != nil {
			return err
		}
	}
	return nil
}
