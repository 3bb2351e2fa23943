// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// killAll kills the processes whose environment has a variable, as NAME=VALUE, until there is none: what a stage
// started inherits its environment, also in another process group or session, such as the servers of integration tests.
func killAll(variable string) {
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
		found := having(variable)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // It may have ended by itself.
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// having returns the processes, other than this one, whose environment has a variable. Processes of other users, whose
// environment cannot be read, and processes that have ended are not among them.
func having(variable string) []int {
	var found []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // The pattern is well-formed.
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+variable+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}
