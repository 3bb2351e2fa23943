// SPDX-License-Identifier: Apache-2.0

// Package testexec has tests hold a command where it is loaded, as a disk does that does not answer.
package testexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait for processes that are about to become something else.
const patience = 10 * time.Second

// Held is a command that exits with code 0, and that the kernel does not load before it is released.
type Held struct {
	*testing.T
	// Path of the command.
	Path string
	file *os.File
	once sync.Once
}

// Hold makes a command and holds it. The kernel releases it after /proc/sys/fs/lease-break-time, which is 45 s.
func Hold(t *testing.T) *Held {
	t.Helper()
	h := &Held{T: t, Path: filepath.Join(t.TempDir(), "held")}
	if err := os.WriteFile(h.Path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.file, err = os.Open(h.Path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.file.Close() })
	h.lease(unix.F_WRLCK)
	t.Cleanup(h.Release)
	return h
}

// lease takes a lease on the file, which whoever opens it waits for, or gives it back. It is refused while another
// process has the file open, as each one has that was forked a moment ago and has not yet become its command.
func (h *Held) lease(kind int) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, err := unix.FcntlInt(h.file.Fd(), unix.F_SETLEASE, kind)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EAGAIN) || time.Now().After(deadline) {
			h.Fatalf("cannot change the lease on %s: %v", h.Path, err)
		}
	}
}

// Release has the command be loaded. To close the file would not do: who waits may be a child of this process, and has
// it open as well.
func (h *Held) Release() {
	h.Helper()
	h.once.Do(func() { h.lease(unix.F_UNLCK) })
}

// Wanted says whether a process waits to become the command.
func (h *Held) Wanted() bool {
	h.Helper()
	info, err := h.file.Stat()
	if err != nil {
		h.Fatal(err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		h.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "BREAKING") && strings.Contains(line, inode) {
			return true
		}
	}
	return false
}
