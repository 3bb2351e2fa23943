// SPDX-License-Identifier: Apache-2.0

// Package budget checks the size of generated objects. The API server takes no
// object above 1 MiB or so, and plain kubectl apply none whose copy in an annotation
// is above 256 KiB.
package budget

import (
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
	return violations
}

func checkFile(root, file string, most int64, what string) []tree.Violation {
	info, err := os.Stat(file)
	if err != nil {
		return []tree.Violation{{Path: file, Message: err.Error()}}
	}
	if info.IsDir() || info.Size() <= most {
		return nil
	}
	return []tree.Violation{{Path: relative(root, file), Message: fmt.Sprintf("has %d bytes: %s may have %d", info.Size(), what, most)}}
}

func relative(root, path string) string {
	if inner, found := strings.CutPrefix(path, root+string(filepath.Separator)); found {
		return filepath.ToSlash(inner)
	}
	return path
}
