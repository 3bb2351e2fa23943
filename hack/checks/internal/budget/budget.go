// SPDX-License-Identifier: Apache-2.0

// Package budget checks the size of generated objects. The API server takes no
// object above 1 MiB or so, and plain kubectl apply none whose copy in an annotation
// is above 256 KiB.
package budget

import (
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

// Largest that things may be, in bytes.
const (
	maxDefinition = 256 << 10
	maxPart       = 900 << 10
	maxRelease    = 700 << 10
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
	return append(violations, checkReleases(t.Root)...)
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

// checkReleases measures what Helm keeps of a release in a Secret.
func checkReleases(root string) []tree.Violation {
	charts, err := filepath.Glob(filepath.Join(root, "charts", "*", "Chart.yaml"))
	if err == nil && len(charts) == 0 {
		err = errors.New("there are no charts: run make generate")
	}
	if err != nil {
		return []tree.Violation{{Path: "charts", Message: err.Error()}}
	}
	var violations []tree.Violation
	for _, chart := range charts {
		dir := filepath.Dir(chart)
		size, err := releaseSize(dir)
		if err != nil {
			violations = append(violations, tree.Violation{Path: relative(root, dir), Message: err.Error()})
		} else if size > maxRelease {
			violations = append(violations, tree.Violation{
				Path: relative(root, dir), Message: fmt.Sprintf("makes a release Secret of about %d bytes: %d is the most", size, maxRelease),
			})
		}
	}
	return violations
}

// releaseSize estimates the Secret of a release, on the high side: it holds the
// chart's files in base64 and once more as rendered, all of it compressed and in base64.
func releaseSize(dir string) (int64, error) {
	var counted counter
	compressed := gzip.NewWriter(&counted)
	encoded := base64.NewEncoder(base64.StdEncoding, compressed)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := encoded.Write(content); err != nil {
			return err
		}
		_, err = compressed.Write(content)
		return err
	})
	if err := errors.Join(err, encoded.Close(), compressed.Close()); err != nil {
		return 0, err
	}
	return int64(base64.StdEncoding.EncodedLen(int(counted))), nil
}

// counter counts the bytes that are written to it.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func relative(root, path string) string {
	if inner, found := strings.CutPrefix(path, root+string(filepath.Separator)); found {
		return filepath.ToSlash(inner)
	}
	return path
}
