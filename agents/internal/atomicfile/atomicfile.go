// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files so that a reader, or whoever starts after a
// crash, sees the old content or the new, and nothing in between; and removes them whether they are there or not.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Write replaces the file with the content. The folder must exist.
func Write(path string, content []byte, mode os.FileMode) error {
	return replace(path, mode, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// Copy replaces the file with all that the reader gives.
func Copy(path string, content io.Reader, mode os.FileMode) error {
	return replace(path, mode, func(f *os.File) error {
		_, err := io.Copy(f, content)
		return err
	})
}

// replace fills a new file beside the path, syncs it, renames it into place and syncs the folder.
func replace(path string, mode os.FileMode, fill func(*os.File) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write file %q: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write file %q: %w", path, errors.Join(err, Remove(f.Name())))
		}
	}()
	err = errors.Join(fill(f), f.Chmod(mode), f.Sync())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(dir)
}

// Remove removes a file that may not be there.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// SyncFolder has the names in a folder on disk.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
