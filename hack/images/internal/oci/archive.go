// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An archive holds the files of an OCI image layout and the manifest.json of
// `docker save` side by side, sharing the blobs: old and new loaders take it, and
// those that know OCI keep the image's digest.

const (
	indexFile = "index.json"
	// Annotations of the entry in index.json; they are not part of the image and its digest.
	annotationName   = "io.containerd.image.name"
	annotationRef    = "org.opencontainers.image.ref.name"
	annotationInputs = "zeroinfra.github.com/inputs"
)

// dockerManifest is one entry of manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// blob is one file of an archive.
type blob struct {
	name string
	size int64
	open func() (io.ReadCloser, error)
}

func bytesBlob(name string, data []byte) blob {
	return blob{name, int64(len(data)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func blobName(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// Write writes an image to an archive file, replacing it in one step. The
// reference is repository:tag without a registry; inputs identifies what the image was made from.
func Write(file string, image v1.Image, repository, tag, inputs string) error {
	blobs, err := archiveBlobs(image, repository, tag, inputs)
	if err != nil {
		return fmt.Errorf("cannot describe image %q: %w", repository, err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("cannot write archive: %w", err)
	}
	err = errors.Join(writeTar(temporary, blobs), temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write archive %q: %w", file, err), os.Remove(temporary.Name()))
	}
	return nil
}

func archiveBlobs(image v1.Image, repository, tag, inputs string) ([]blob, error) {
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	configName, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	descriptor, err := partial.Descriptor(image)
	if err != nil {
		return nil, err
	}
	descriptor.Annotations = map[string]string{
		annotationName: "docker.io/" + repository + ":" + tag, annotationRef: tag, annotationInputs: inputs,
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{*descriptor}})
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	docker := dockerManifest{Config: blobName(configName), RepoTags: []string{repository + ":" + tag}}
	tail := []blob{bytesBlob(blobName(descriptor.Digest), manifest), bytesBlob(blobName(configName), config)}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		size, err := layer.Size()
		if err != nil {
			return nil, err
		}
		docker.Layers = append(docker.Layers, blobName(digest))
		tail = append(tail, blob{blobName(digest), size, layer.Compressed})
	}
	old, err := json.Marshal([]dockerManifest{docker})
	if err != nil {
		return nil, err
	}
	head := []blob{
		bytesBlob("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		bytesBlob(indexFile, index), bytesBlob("manifest.json", old),
	}
	return append(head, tail...), nil
}

func writeTar(w io.Writer, blobs []blob) error {
	out := tar.NewWriter(w)
	for _, b := range blobs {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: b.name, Size: b.size, Mode: 0o644, ModTime: time.Unix(0, 0)}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		r, err := b.open()
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return out.Close()
}
