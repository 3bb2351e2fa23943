// SPDX-License-Identifier: Apache-2.0

//go:build linux

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/zeroinfra/hack/devcluster/internal/machine"
)

// namespace is where the CRI of containerd keeps its images.
const namespace = "k8s.io"

func newReader(data []byte) io.Reader { return bytes.NewReader(data) }

// renameIndex reads an OCI index and gives every named image its full name.
// All other fields stay as they are.
func renameIndex(r io.Reader) ([]byte, error) {
	var index map[string]any
	if err := json.NewDecoder(r).Decode(&index); err != nil {
		return nil, fmt.Errorf("cannot read index.json: %w", err)
	}
	manifests, _ := index["manifests"].([]any)
	for _, m := range manifests {
		entry, _ := m.(map[string]any)
		annotations, _ := entry["annotations"].(map[string]any)
		text := map[string]string{}
		for k, v := range annotations {
			text[k], _ = v.(string)
		}
		if tag := imageName(text); tag != "" {
			name, err := fullName(tag)
			if err != nil {
				return nil, err
			}
			annotations[nameAnnotation] = name
		}
	}
	return json.Marshal(index)
}

// Load brings the images of archives to a node and returns those archives
// whose images the node did not have already.
func Load(ctx context.Context, m *machine.Machine, archives ...*Archive) ([]*Archive, error) {
	present, err := list(ctx, m)
	if err != nil {
		return nil, err
	}
	var loaded []*Archive
	for _, a := range archives {
		if a.in(present) {
			continue
		}
		if err := a.load(ctx, m); err != nil {
			return nil, fmt.Errorf("cannot load %q into node %q: %w", a.Path, m.Name, err)
		}
		loaded = append(loaded, a)
	}
	return loaded, nil
}

func (a *Archive) load(ctx context.Context, m *machine.Machine) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(a.stream(w)) }()
	defer r.Close()
	_, err := ctr(ctx, m, r, "images", "import", "--digests=false", "-")
	return err
}

// Pin keeps an image out of the kubelet's garbage collection.
func Pin(ctx context.Context, m *machine.Machine, name string) error {
	_, err := ctr(ctx, m, nil, "images", "label", name, "io.cri-containerd.pinned=pinned")
	return err
}

func ctr(ctx context.Context, m *machine.Machine, stdin io.Reader, args ...string) (string, error) {
	return m.Run(ctx, stdin, "ctr", append([]string{"--namespace", namespace}, args...)...)
}

// list returns the images of a node: from name to digest.
func list(ctx context.Context, m *machine.Machine) (map[string]string, error) {
	out, err := ctr(ctx, m, nil, "images", "list")
	if err != nil {
		return nil, fmt.Errorf("cannot list images of node %q: %w", m.Name, err)
	}
	return parseList(out), nil
}

// parseList reads the table that "ctr images list" prints: the name is the
// first column, the digest the third.
func parseList(out string) map[string]string {
	images := map[string]string{}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) >= 3 && strings.HasPrefix(fields[2], "sha256:") {
			images[fields[0]] = fields[2]
		}
	}
	return images
}

// in tells whether every image of the archive is among those of a node: the
// CRI lists each image under its name and under its identity, and both must
// mean the same.
func (a *Archive) in(present map[string]string) bool {
	for _, e := range a.Entries {
		if e.ID == "" || present[e.Name] == "" || present[e.Name] != present[e.ID] {
			return false
		}
	}
	return true
}
