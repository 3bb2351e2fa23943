// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp, which proc(5) describes.
const listening = "0A"

// running returns the id of a process that runs a script, which is named by the end of its path; empty when there is
// none.
func running(script string) string {
	if script == "" {
		return ""
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // The pattern is well-formed.
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // It has ended.
		}
		// The interpreter of a script is its first argument, and the script the second.
		if args := bytes.Split(line, []byte{0}); len(args) > 1 && bytes.HasSuffix(args[1], []byte(script)) {
			return filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}

// listener names the process that listens at a port, where the kernel tells.
func listener(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		if inode := inodeOf(string(text), port); inode != "" {
			return holder("socket:[" + inode + "]")
		}
	}
	return "another program"
}

// inodeOf finds the inode of the socket that listens at a port in a table of sockets.
func inodeOf(table string, port int) string {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == listening {
			return f[9]
		}
	}
	return ""
}

// holder names the process that has a file open.
func holder(file string) string {
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*") // The pattern is well-formed.
	for _, path := range open {
		if target, err := os.Readlink(path); err != nil || target != file {
			continue
		}
		process := filepath.Dir(filepath.Dir(path))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			break
		}
		return fmt.Sprintf("process %s (%s)", filepath.Base(process), strings.TrimSpace(string(name)))
	}
	return "a process that only root sees"
}
