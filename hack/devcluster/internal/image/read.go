// SPDX-License-Identifier: Apache-2.0

//go:build linux

package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/distribution/reference"
)

// dockerManifest is one entry of manifest.json in a Docker archive.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Annotations that name the image in the index of an OCI archive.
const (
	nameAnnotation = "io.containerd.image.name"
	refAnnotation  = "org.opencontainers.image.ref.name"
)

type descriptor struct {
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Entry is one named image of an archive.
type Entry struct {
	// Name is the full reference, such as docker.io/library/redis:8.0.
	Name string
	// ID is the digest of its configuration, by which containerd's CRI knows
	// it. It is empty for an index over several platforms.
	ID string
}

// Archive is an image archive on disk.
type Archive struct {
	// Path is the file.
	Path string
	// Entries are its images.
	Entries []Entry
}

// maxMetadata bounds the JSON files that are read out of an archive, in bytes.
const maxMetadata = 8 << 20

// Open reads the names and identities in a Docker or OCI archive.
func Open(file string) (*Archive, error) {
	small, err := metadata(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read image archive %q: %w", file, err)
	}
	a := &Archive{Path: file}
	switch {
	case small["manifest.json"] != nil:
		a.Entries, err = dockerEntries(small)
	case small["index.json"] != nil:
		a.Entries, err = ociEntries(small)
	default:
		err = errors.New("it holds neither manifest.json nor index.json: give an uncompressed Docker or OCI archive")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read image archive %q: %w", file, err)
	}
	if len(a.Entries) == 0 {
		return nil, fmt.Errorf("cannot use image archive %q: it names no image: give it a tag", file)
	}
	return a, nil
}

// metadata reads every file of an archive that looks like JSON.
func metadata(file string) (map[string][]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	small := map[string][]byte{}
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return small, nil
		}
		if err != nil {
			return nil, fmt.Errorf("not an uncompressed tar: %w", err)
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 || h.Size > maxMetadata {
			continue
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(tr, first); err != nil {
			return nil, err
		}
		if first[0] != '{' && first[0] != '[' {
			continue
		}
		rest, err := io.ReadAll(tr)
		if err != nil {
			return nil, err
		}
		small[path.Clean(h.Name)] = append(first, rest...)
	}
}

func dockerEntries(small map[string][]byte) ([]Entry, error) {
	var manifests []dockerManifest
	if err := json.Unmarshal(small["manifest.json"], &manifests); err != nil {
		return nil, fmt.Errorf("cannot read manifest.json: %w", err)
	}
	var entries []Entry
	for _, m := range manifests {
		config := small[path.Clean(m.Config)]
		if config == nil {
			return nil, fmt.Errorf("cannot find configuration %q in it", m.Config)
		}
		sum := sha256.Sum256(config)
		for _, tag := range m.RepoTags {
			name, err := fullName(tag)
			if err != nil {
				return nil, err
			}
			entries = append(entries, Entry{Name: name, ID: "sha256:" + hex.EncodeToString(sum[:])})
		}
	}
	return entries, nil
}

func ociEntries(small map[string][]byte) ([]Entry, error) {
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(small["index.json"], &index); err != nil {
		return nil, fmt.Errorf("cannot read index.json: %w", err)
	}
	var entries []Entry
	for _, d := range index.Manifests {
		tag := imageName(d.Annotations)
		if tag == "" {
			continue
		}
		name, err := fullName(tag)
		if err != nil {
			return nil, err
		}
		if len(d.Digest) < len("sha256:")+64 {
			return nil, fmt.Errorf("cannot use digest %q of image %q: it is no sha256", d.Digest, name)
		}
		var manifest struct{ Config descriptor }
		if data := small["blobs/sha256/"+d.Digest[len("sha256:"):]]; data != nil {
			if err := json.Unmarshal(data, &manifest); err != nil {
				return nil, fmt.Errorf("cannot read manifest of image %q: %w", name, err)
			}
		}
		entries = append(entries, Entry{Name: name, ID: manifest.Config.Digest})
	}
	return entries, nil
}

func imageName(annotations map[string]string) string {
	if name := annotations[nameAnnotation]; name != "" {
		return name
	}
	return annotations[refAnnotation]
}

// fullName completes a name the way container tools do: redis:8 becomes
// docker.io/library/redis:8.
func fullName(tag string) (string, error) {
	named, err := reference.ParseDockerRef(tag)
	if err != nil {
		return "", fmt.Errorf("cannot use image name %q: %w", tag, err)
	}
	return named.String(), nil
}

// stream writes the archive so that containerd finds every image under its
// full name: an OCI index gets the annotation that containerd looks for.
func (a *Archive) stream(w io.Writer) error {
	f, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	tr, tw := tar.NewReader(f), tar.NewWriter(w)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return tw.Close()
		}
		if err != nil {
			return err
		}
		var body io.Reader = tr
		if path.Clean(h.Name) == "index.json" {
			data, err := renameIndex(tr)
			if err != nil {
				return err
			}
			h.Size = int64(len(data))
			body = newReader(data)
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, body); err != nil {
			return err
		}
	}
}
