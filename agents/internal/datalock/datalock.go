// SPDX-License-Identifier: Apache-2.0

// Package datalock keeps two process managers from running servers on one data
// folder at the same time, as they would when a pod was deleted by force and the
// next one got its volume. It is an flock on one file in the folder: it ends with
// whoever holds it, however that ends, and needs no cleaning up.
package datalock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Name of the file in the folder. It stays there, and may be removed when nothing runs.
const Name = ".zeroinfra.lock"

// mode lets the next pod open the file, which may have another user but has the volume's group.
const mode = 0o660

// maxAttempts bounds how often a file that is replaced meanwhile is opened again.
const maxAttempts = 5

// ErrHeld says that another process manager has the folder.
var ErrHeld = errors.New("another process manager still has it")

// Lock is held on at most one folder. It is not safe for concurrent use.
type Lock struct {
	path string
	file *os.File
}

// Take takes the lock on a folder and gives back that on another one before. It does not wait: ErrHeld says to try
// again. No folder, and one that this user cannot write to, needs no lock: no server that is started here can change
// it.
func (l *Lock) Take(dir string) error {
	if dir == "" {
		l.Release()
		return nil
	}
	path := filepath.Join(dir, Name)
	if l.file != nil && l.path == path && isAt(l.file, path) {
		return nil
	}
	file, err := take(path)
	if err != nil {
		return fmt.Errorf("cannot lock the data folder %q: %w", dir, err)
	}
	l.Release()
	l.path, l.file = path, file
	return nil
}

// File is the open file that holds the lock; nil when none does. A process that inherits it holds the lock, too, so
// that it is not free before that process has ended, even when its process manager was killed.
func (l *Lock) File() *os.File { return l.file }

// Release gives the lock back.
func (l *Lock) Release() {
	if l.file != nil {
		l.file.Close()
	}
	l.path, l.file = "", nil
}

// take returns a nil file when no lock is needed.
func take(path string) (*os.File, error) {
	for range maxAttempts {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
		if err != nil {
			if needless(path, err) {
				return nil, nil
			}
			return nil, err
		}
		if err := flock(file); err != nil {
			file.Close()
			return nil, err
		}
		// The file that was locked may have been removed before it was, and then guards nothing.
		if isAt(file, path) {
			return file, nil
		}
		file.Close()
	}
	return nil, errors.New("the lock file does not stay there")
}

// needless says whether the lock file cannot be made because nothing can be written there at all.
func needless(path string, err error) bool {
	if _, statErr := os.Lstat(path); statErr == nil {
		return false
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)
}

func flock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		case err != nil:
			return fmt.Errorf("cannot lock file %q: %w; does its file system know flock?", file.Name(), err)
		}
		return nil
	}
}

// isAt says whether the open file is the one at the path.
func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}
