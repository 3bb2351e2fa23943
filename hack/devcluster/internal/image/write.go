// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package image makes the small images of the cluster's own pods, and loads
// image archives into containerd.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Content is a file, a folder or a link of an image.
type Content struct {
	// Path is its absolute place in the image. One that ends in "/" is a
	// folder.
	Path string
	// Source is a file on the host with the content.
	Source string
	// Data is the content when Source is empty.
	Data []byte
	// Link is the target of a symbolic link.
	Link string
	// Mode are the permissions.
	Mode int64
}

// Spec says what an image is made of.
type Spec struct {
	// Name is the full reference.
	Name string
	// Contents become its only layer.
	Contents []Content
	// Entrypoint is the command that it runs.
	Entrypoint []string
	// User is the numeric user and group, such as "65532:65532".
	User string
}

// Write writes an image as an archive that "docker load" and containerd read.
// The same spec gives the same bytes.
func Write(path string, s Spec) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot make folder for image %q: %w", s.Name, err)
	}
	layer, err := os.CreateTemp(filepath.Dir(path), ".layer-")
	if err != nil {
		return fmt.Errorf("cannot write image %q: %w", s.Name, err)
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	sum := sha256.New()
	size := &counter{}
	if err := writeLayer(io.MultiWriter(layer, sum, size), s.Contents); err != nil {
		return fmt.Errorf("cannot write layer of image %q: %w", s.Name, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": s.Entrypoint, "User": s.User,
			"Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return fmt.Errorf("cannot write image %q: %w", s.Name, err)
	}
	defer os.Remove(out.Name())
	if err := writeArchive(out, s.Name, config, layer, size.n); err != nil {
		out.Close()
		return fmt.Errorf("cannot write image %q: %w", s.Name, err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("cannot write image %q: %w", s.Name, err)
	}
	return os.Rename(out.Name(), path)
}

func writeArchive(w io.Writer, name string, config []byte, layer io.Reader, size int64) error {
	configHash := sha256.Sum256(config)
	configName := hex.EncodeToString(configHash[:]) + ".json"
	manifest, err := json.Marshal([]dockerManifest{
		{Config: configName, RepoTags: []string{name}, Layers: []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		size int64
		data io.Reader
	}{
		{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)},
		{configName, int64(len(config)), bytes.NewReader(config)},
		{"layer.tar", size, layer},
	} {
		if err := tw.WriteHeader(&tar.Header{Name: f.name, Size: f.size, Mode: 0o644}); err != nil {
			return err
		}
		if _, err := io.Copy(tw, f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeLayer writes contents, with the folders above them, as a tar stream.
func writeLayer(w io.Writer, contents []Content) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{}
	sorted := slices.Clone(contents)
	slices.SortStableFunc(sorted, func(a, b Content) int { return strings.Compare(a.Path, b.Path) })
	for _, c := range sorted {
		if err := writeParents(tw, path.Dir(strings.TrimSuffix(c.Path, "/")), made); err != nil {
			return err
		}
		if err := writeContent(tw, c, made); err != nil {
			return fmt.Errorf("cannot add %q: %w", c.Path, err)
		}
	}
	return tw.Close()
}

func writeParents(tw *tar.Writer, dir string, made map[string]bool) error {
	if dir == "/" || dir == "." || made[dir] {
		return nil
	}
	if err := writeParents(tw, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755})
}

func writeContent(tw *tar.Writer, c Content, made map[string]bool) error {
	header := &tar.Header{Name: strings.TrimPrefix(c.Path, "/"), Mode: c.Mode}
	switch {
	case strings.HasSuffix(c.Path, "/"):
		made[strings.TrimSuffix(c.Path, "/")] = true
		header.Typeflag = tar.TypeDir
		return tw.WriteHeader(header)
	case c.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, c.Link
		return tw.WriteHeader(header)
	case c.Source == "":
		header.Size = int64(len(c.Data))
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		_, err := tw.Write(c.Data)
		return err
	}
	f, err := os.Open(c.Source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
