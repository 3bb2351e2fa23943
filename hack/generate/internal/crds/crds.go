// SPDX-License-Identifier: Apache-2.0

// Package crds writes CustomResourceDefinitions with a revision: a number in an
// annotation that grows whenever the definition changes. Operators of several
// versions share one cluster; each applies a definition only when its own revision is
// higher than the one that is there.
package crds

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// annotation follows the line that controller-gen writes of itself.
const annotation = "platform.zeroinfra.github.com/crd-revision"

var (
	revisionLine = regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(annotation) + `: "(\d+)"\n`)
	versionLine  = regexp.MustCompile(`(?m)^    controller-gen\.kubebuilder\.io/version: .*\n`)
)

// Write generates config/crd/bases of each module from its api folder.
func Write(root string, modules []string) error {
	for _, module := range modules {
		if err := writeModule(root, filepath.Join(root, module)); err != nil {
			return fmt.Errorf("cannot generate definitions of module %q: %w", module, err)
		}
	}
	return nil
}

func writeModule(root, dir string) error {
	temporary, err := os.MkdirTemp("", "crds-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)

	// Packages are named by pattern relative to the module, else those of the modules that it imports come along.
	generate := exec.Command(filepath.Join(root, "bin", "controller-gen"),
		"crd:crdVersions=v1", "paths=./api/...", "output:crd:dir="+temporary)
	generate.Dir = dir
	generate.Env = append(os.Environ(), "GOWORK=off")
	if out, err := generate.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s(is bin/controller-gen there? make -C hack/tools)", err, out)
	}
	group, err := groupOf(dir)
	if err != nil {
		return err
	}
	fresh, err := filepath.Glob(filepath.Join(temporary, group+"_*.yaml"))
	if err != nil {
		return err
	}
	bases := filepath.Join(dir, "config", "crd", "bases")
	if err := os.MkdirAll(bases, 0o755); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, file := range fresh {
		name := filepath.Base(file)
		written[name] = true
		if err := finish(root, filepath.Base(dir), file); err != nil {
			return fmt.Errorf("cannot complete %q: %w", name, err)
		}
		if err := writeDefinition(file, filepath.Join(bases, name)); err != nil {
			return fmt.Errorf("cannot write %q: %w", name, err)
		}
	}
	return removeOthers(bases, written)
}

var groupName = regexp.MustCompile(`(?m)^// \+groupName=(\S+)$`)

// groupOf reads the API group of a module. A run of controller-gen also emits the
// kinds of packages that the types refer to; those are of another group.
func groupOf(dir string) (string, error) {
	path := filepath.Join(dir, "api", "v1", "doc.go")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	match := groupName.FindSubmatch(data)
	if match == nil {
		return "", fmt.Errorf("cannot find the marker +groupName in %q", path)
	}
	return string(match[1]), nil
}

func finish(root, module, file string) error {
	definition, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if definition, err = complete(root, module, definition); err != nil {
		return err
	}
	return os.WriteFile(file, definition, 0o644)
}

func writeDefinition(fresh, target string) error {
	body, err := os.ReadFile(fresh)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	revision := 1
	if match := revisionLine.FindSubmatch(old); match != nil {
		if revision, err = strconv.Atoi(string(match[1])); err != nil {
			return err
		}
		if !bytes.Equal(revisionLine.ReplaceAll(old, nil), body) {
			revision++
		}
	}
	at := versionLine.FindIndex(body)
	if at == nil {
		return errors.New("controller-gen left out its annotation")
	}
	var out bytes.Buffer
	out.Write(body[:at[1]])
	fmt.Fprintf(&out, "    %s: %q\n", annotation, strconv.Itoa(revision))
	out.Write(body[at[1]:])
	return os.WriteFile(target, out.Bytes(), 0o644)
}

func removeOthers(bases string, keep map[string]bool) error {
	present, err := filepath.Glob(filepath.Join(bases, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range present {
		if keep[filepath.Base(file)] {
			continue
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}
