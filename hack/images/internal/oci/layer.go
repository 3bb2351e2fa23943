// SPDX-License-Identifier: Apache-2.0

// Package oci turns file systems into OCI images, keeps them in archives that
// container runtimes load, and pushes them to registries.
package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// Layer is a compressed layer in an unnamed file. It is a v1.Layer.
type Layer struct {
	note             string
	file             *os.File
	size             int64
	digest, unpacked v1.Hash
}

// NewLayer compresses the tar stream that write produces. The file is made in dir; Close
// releases it. The note ends up in the image's history.
func NewLayer(dir, note string, write func(io.Writer) error) (_ *Layer, err error) {
	file, err := os.CreateTemp(dir, "layer-*")
	if err != nil {
		return nil, fmt.Errorf("cannot make layer: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	compressed, plain := sha256.New(), sha256.New()
	packer, err := gzip.NewWriterLevel(io.MultiWriter(file, compressed), gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if err := write(io.MultiWriter(packer, plain)); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, fmt.Errorf("cannot compress layer: %w", err)
	}
	size, err := file.Seek(0, io.SeekCurrent)
	return &Layer{note: note, file: file, size: size, digest: sum(compressed), unpacked: sum(plain)}, err
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// Close releases the file.
func (l *Layer) Close() error { return l.file.Close() }

// Digest implements v1.Layer.
func (l *Layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer.
func (l *Layer) DiffID() (v1.Hash, error) { return l.unpacked, nil }

// Size implements v1.Layer: bytes as compressed.
func (l *Layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *Layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed implements v1.Layer.
func (l *Layer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(l.file, 0, l.size)), nil
}

// Uncompressed implements v1.Layer.
func (l *Layer) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(io.NewSectionReader(l.file, 0, l.size))
}

// CloseAll releases layers.
func CloseAll(layers []*Layer) error {
	var all []error
	for _, l := range layers {
		all = append(all, l.Close())
	}
	return errors.Join(all...)
}
