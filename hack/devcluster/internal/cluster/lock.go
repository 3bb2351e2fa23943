// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock makes the cluster's folder and takes it for one command that changes
// the cluster. When another holds it, waiting is called once before waiting.
// The lock ends with the process or with the returned function.
func (c Cluster) Lock(waiting func()) (func(), error) {
	for {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot create state folder %q: %w", c.Dir, err)
		}
		f, err := os.Open(c.Dir)
		if err != nil {
			return nil, fmt.Errorf("cannot open state folder %q: %w", c.Dir, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			waiting()
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("cannot lock state folder %q: %w", c.Dir, err)
		}
		// The holder before us may have removed the folder: then the lock is
		// on a folder that nobody else sees.
		held, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("cannot look at state folder %q: %w", c.Dir, err)
		}
		if now, err := os.Stat(c.Dir); err == nil && os.SameFile(held, now) {
			return func() { _ = f.Close() }, nil
		}
		f.Close()
	}
}
