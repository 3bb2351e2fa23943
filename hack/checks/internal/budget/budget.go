// SPDX-License-Identifier: Apache-2.0

// Package budget checks the size of generated objects, and of golden files. The API
// server takes no object above 1 MiB or so, and plain kubectl apply none whose copy in
// an annotation is above 256 KiB. People read what differs in golden files.
package budget

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

// Largest that things may be, in bytes.
const (
	maxDefinition = 256 << 10
	maxPart       = 900 << 10
)

// maxGoldens is how many lines the golden files of plugins may have for each plugin, on average.
const maxGoldens = 2_500

// Check returns what is above its budget, and budgets that nothing is measured against.
func Check(t *tree.Tree) []tree.Violation {
	var violations []tree.Violation
	for _, limit := range []struct {
		pattern string
		most    int64
		what    string
	}{
		{"*/config/crd/bases/*.yaml", maxDefinition, "a definition"},
		{"*/plugins/*/*/*", maxPart, "a part of a plugin"},
		{"*/plugins/*/*/*/*", maxPart, "a part of a plugin"},
	} {
		files, err := filepath.Glob(filepath.Join(t.Root, limit.pattern))
		if err != nil {
			return append(violations, tree.Violation{Path: limit.pattern, Message: err.Error()})
		}
		for _, file := range files {
			violations = append(violations, checkFile(t.Root, file, limit.most, limit.what)...)
		}
	}
	return append(violations, checkGoldens(t.Root)...)
}

func checkGoldens(root string) []tree.Violation {
	const pattern = "*/plugins/*/*/testdata/*.out.yaml"
	files, err := filepath.Glob(filepath.Join(root, pattern))
	lines, plugins := 0, map[string]bool{}
	for _, file := range files {
		plugins[filepath.Dir(file)] = true
		data, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		lines += bytes.Count(data, []byte("\n"))
	}
	switch {
	case err != nil:
		return []tree.Violation{{Path: pattern, Message: err.Error()}}
	case lines > maxGoldens*len(plugins):
		return []tree.Violation{{Path: pattern,
			Message: fmt.Sprintf("they have %d lines together, and may have %d: have a case"+
				" show one claim, under the name of the Application of the case it is compared with", lines,
				maxGoldens*len(plugins))}}
	}
	return nil
}

func checkFile(root, file string, most int64, what string) []tree.Violation {
	info, err := os.Stat(file)
	if err != nil {
		return []tree.Violation{{Path: file, Message: err.Error()}}
	}
	if info.IsDir() || info.Size() <= most {
		return nil
	}
	return []tree.Violation{{Path: relative(root, file),
		Message: fmt.Sprintf("has %d bytes: %s may have %d", info.Size(), what, most)}}
}

func relative(root, path string) string {
	if inner, found := strings.CutPrefix(path, root+string(filepath.Separator)); found {
		return filepath.ToSlash(inner)
	}
	return path
}
