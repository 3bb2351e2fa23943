// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is by how much timers may be late.
const timerSlack = 2 * time.Millisecond

// Unhurried lets all timers of this program, and of what it starts, be up to 2 ms late. It starts the program anew with
// the same arguments, and returns in that one: the kernel hands the rule down from thread to thread, and some of the Go
// runtime's are there before main. One of those looks after the others every 20 µs for as long as anything runs or a
// process is being started, which is a fifth of all that an agent at rest takes. The error says why that cannot be; the
// program can go on without.
func Unhurried() error {
	// What is asked and set is of the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if is, err := isUnhurried(); is || err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot say how late timers may be: %w", err)
	}
	// Who takes no notice of that, as the kernel does for threads of real time, would start anew for ever.
	if is, err := isUnhurried(); err != nil || !is {
		return cmp.Or(err, errors.New("the kernel takes no notice of how late timers may be"))
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot start the program anew: %w", err)
	}
	if err := syscall.Exec(path, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("cannot start the program anew: %w", err)
	}
	return nil
}

// isUnhurried says whether the timers of this thread may be late.
func isUnhurried() (bool, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return false, fmt.Errorf("cannot ask how late timers may be: %w", err)
	}
	return slack == int(timerSlack), nil
}
