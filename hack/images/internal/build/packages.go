// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/oci"
	"github.com/zeroinfra/hack/images/internal/rootfs"
)

// Open opens the archive of an image that was built before.
func (b *Builder) Open(image *definition.Image) (*oci.Archive, error) {
	archive, err := oci.Open(b.ArchivePath(image))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("image %q is not in %q: run \"images build %s\" first", image.Reference(), b.Out, image.Name)
	}
	return archive, err
}

// Packages returns, sorted, the name=version of every Debian package in a built image.
func (b *Builder) Packages(image *definition.Image) ([]string, error) {
	archive, err := b.Open(image)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	layers, err := archive.Image.Layers()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, layer := range layers {
		found, err := packagesOf(layer)
		if err != nil {
			return nil, fmt.Errorf("cannot read layer of %q: %w", image.Reference(), err)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	return all, nil
}

func packagesOf(layer v1.Layer) (found []string, err error) {
	stream, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	for reader := tar.NewReader(stream); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if !rootfs.IsStatus(h.Name) {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		found = append(found, rootfs.StatusPackage(string(text)))
	}
}
