// SPDX-License-Identifier: Apache-2.0

// Package host says what a machine lacks for the gate, and what commit is tested.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Needs is what a run needs of the machine.
type Needs struct {
	// Disk is the free space in bytes that each of these folders needs, or the nearest one above that exists.
	Disk map[string]uint64
	// Root is true when the run makes network namespaces and mounts.
	Root bool
	// Port is one on the loopback interface that has to be free; 0 for none.
	Port int
	// Script is a program that may not run already, as the end of its path; empty for none.
	Script string
}

// Check returns one sentence for each thing that is missing.
func Check(n Needs) []string {
	var missing []string
	for _, name := range []string{"git", "go", "make"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+" is not installed: install it and put it on PATH")
		}
	}
	for folder, need := range n.Disk {
		if free, err := freeBytes(folder); err == nil && free < need {
			missing = append(missing, fmt.Sprintf("%s has %d GiB free and the tests need %d GiB: make room there", folder,
				free>>30, need>>30))
		}
	}
	if n.Root && os.Geteuid() != 0 {
		missing = append(missing, "the smoke tests make a cluster, which needs root: run as root, or set KUBECONFIG to a "+
			"cluster that they may use")
	}
	if pid := running(n.Script); pid != "" {
		missing = append(missing, fmt.Sprintf("process %s already runs %s: wait for its end, or end it", pid, n.Script))
	} else if n.Port != 0 && inUse(n.Port) {
		missing = append(missing, fmt.Sprintf(
			"port %d of 127.0.0.1, which the cluster of the smoke tests needs, is in use by %s: end that",
			n.Port, listener(n.Port)))
	}
	return missing
}

// freeBytes returns the space that is free in a folder, or in the nearest one above it that exists.
func freeBytes(folder string) (uint64, error) {
	var stat syscall.Statfs_t
	err := syscall.Statfs(folder, &stat)
	if errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		return freeBytes(filepath.Dir(folder))
	}
	if err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

func inUse(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}

// Commit returns the full hash of the commit that is checked out in a folder, and whether files differ from it.
func Commit(root string) (hash string, dirty bool, err error) {
	head, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return "", false, fmt.Errorf("cannot read the commit of %s: %w", root, err)
	}
	changes, err := exec.Command("git", "-C", root, "status", "--porcelain").Output()
	if err != nil {
		return "", false, fmt.Errorf("cannot see whether %s has changes: %w", root, err)
	}
	return strings.TrimSpace(string(head)), len(changes) > 0, nil
}
