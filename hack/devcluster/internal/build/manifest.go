// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// write puts the manifest together from the module's files.
func (m Manifest) write(ctx context.Context, source, out string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", m.Module)
	cmd.Dir = source
	cmd.Env = append(Environ(), "GOFLAGS=-mod=readonly")
	data, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot fetch module %q: %w", m.Module, err)
	}
	var info struct{ Dir string }
	if err := yaml.Unmarshal(data, &info); err != nil {
		return fmt.Errorf("cannot find module %q: %w", m.Module, err)
	}
	files, err := filepath.Glob(filepath.Join(info.Dir, m.Pattern))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("module %q has no files %q", m.Module, m.Pattern)
	}
	var all bytes.Buffer
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		object, err := plain(data)
		if err != nil {
			return fmt.Errorf("cannot use %q of module %q: %w", filepath.Base(file), m.Module, err)
		}
		all.WriteString("---\n")
		all.Write(object)
	}
	return os.WriteFile(out, all.Bytes(), 0o644)
}

// plain takes an object out of a file. Labels that a chart was to fill in are
// left out.
func plain(data []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for name, value := range labels {
		if text, ok := value.(string); !ok || strings.Contains(text, "{{") {
			delete(labels, name)
		}
	}
	if name, ok := metadata["name"].(string); !ok || name == "" {
		return nil, errors.New("it holds no object with a name")
	}
	return yaml.Marshal(object)
}
