// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Archive is an opened archive file. Its Image can be used until Close.
type Archive struct {
	Image v1.Image
	// Inputs is what Write was given.
	Inputs string

	file     *os.File
	parts    map[string]*io.SectionReader
	manifest v1.Manifest
	raw      []byte
}

// Open reads an archive made by Write. A file that is not complete is an error.
func Open(file string) (_ *Archive, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	a := &Archive{file: f, parts: map[string]*io.SectionReader{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("cannot read archive %q: %w", filepath.Base(file), err), f.Close())
		}
	}()
	if err := a.index(); err != nil {
		return nil, err
	}
	data, err := a.read(indexFile)
	if err != nil {
		return nil, err
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("it holds %d images instead of one", len(index.Manifests))
	}
	a.Inputs = index.Manifests[0].Annotations[annotationInputs]
	if a.raw, err = a.read(blobName(index.Manifests[0].Digest)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(a.raw, &a.manifest); err != nil {
		return nil, err
	}
	for _, layer := range a.manifest.Layers {
		if part := a.parts[blobName(layer.Digest)]; part == nil || part.Size() != layer.Size {
			return nil, fmt.Errorf("layer %s is missing or cut short", layer.Digest)
		}
	}
	a.Image, err = partial.CompressedToImage(core{a})
	return a, err
}

// Close releases the file.
func (a *Archive) Close() error { return a.file.Close() }

// index finds where each file of the archive starts. The tar reader does not read
// ahead, so that the file's position after a header is that of the content.
func (a *Archive) index() error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	reader := tar.NewReader(a.file)
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if at+h.Size > info.Size() {
			return io.ErrUnexpectedEOF
		}
		a.parts[h.Name] = io.NewSectionReader(a.file, at, h.Size)
	}
}

func (a *Archive) read(name string) ([]byte, error) {
	part := a.parts[name]
	if part == nil {
		return nil, fmt.Errorf("it has no file %q", name)
	}
	return io.ReadAll(io.NewSectionReader(part, 0, part.Size()))
}

// core lets partial make a full v1.Image of the archive.
type core struct{ a *Archive }

// RawManifest implements partial.CompressedImageCore.
func (c core) RawManifest() ([]byte, error) { return c.a.raw, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (c core) RawConfigFile() ([]byte, error) { return c.a.read(blobName(c.a.manifest.Config.Digest)) }

// MediaType implements partial.CompressedImageCore.
func (c core) MediaType() (types.MediaType, error) { return c.a.manifest.MediaType, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (c core) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range append(c.a.manifest.Layers, c.a.manifest.Config) {
		if part := c.a.parts[blobName(h)]; d.Digest == h && part != nil {
			return storedLayer{d, part}, nil
		}
	}
	return nil, fmt.Errorf("the archive has no layer %s", h)
}

// storedLayer is a layer inside an archive.
type storedLayer struct {
	descriptor v1.Descriptor
	part       *io.SectionReader
}

// Digest implements partial.CompressedLayer.
func (s storedLayer) Digest() (v1.Hash, error) { return s.descriptor.Digest, nil }

// Size implements partial.CompressedLayer.
func (s storedLayer) Size() (int64, error) { return s.descriptor.Size, nil }

// MediaType implements partial.CompressedLayer.
func (s storedLayer) MediaType() (types.MediaType, error) { return s.descriptor.MediaType, nil }

// Compressed implements partial.CompressedLayer.
func (s storedLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.part, 0, s.part.Size())), nil
}
