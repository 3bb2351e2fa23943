// SPDX-License-Identifier: Apache-2.0

// Package logfiles keeps the files that a process logs to within bounds. A file that has grown beyond its share is
// renamed, and what is oldest is removed, so that a volume of logs is never full of them.
package logfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// kept is the number of renamed files beside each that is written.
const kept = 4

// Bound renames each file that is beyond its share: "access.log" to "access.log.1", what that was to "access.log.2",
// and so on; the last is removed. It says whether one was renamed, after which the process has to open its files anew.
// It goes on after an error. Cut off in between, it leaves a gap in the numbers, which the next time closes.
func Bound(logs *plan.Logs) (renamed bool, err error) {
	share := logs.MaxBytes / int64(len(logs.Files)*(kept+1))
	var errs []error
	for _, name := range logs.Files {
		path := filepath.Join(logs.Dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, cut(numbered(path, 1), share))
			continue
		}
		if err == nil && (!info.Mode().IsRegular() || info.Size() <= share) {
			continue
		}
		if err == nil {
			err = rotate(path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot keep file %q within %d bytes: %w", path, share, err))
			continue
		}
		renamed = true
	}
	return renamed, errors.Join(errs...)
}

// rotate moves every file to the next number, from the last, which is overwritten.
func rotate(path string) error {
	for number := kept; number > 1; number-- {
		err := os.Rename(numbered(path, number-1), numbered(path, number))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(path, numbered(path, 1))
}

// cut empties a renamed file that the process still writes to, once that has another share: what was asked of the
// process had no effect, and a volume that is full would be worse than logs that are lost.
func cut(path string, share int64) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() <= 2*share {
		return nil
	}
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("cannot keep file %q within %d bytes: %w", path, 2*share, err)
	}
	return fmt.Errorf("file %q was emptied at %d bytes: the process still writes to it, although it was told to open "+
		"its files anew", path, info.Size())
}

func numbered(path string, number int) string { return fmt.Sprintf("%s.%d", path, number) }
