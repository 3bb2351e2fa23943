// SPDX-License-Identifier: Apache-2.0

// Package host says what a machine lacks for the gate, and what commit is tested.
package host

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Needs is what a run needs of the machine.
type Needs struct {
	// Disk is the free space in bytes that Folders need.
	Disk uint64
	// Folders are where a run writes.
	Folders []string
	// Root is true when the run makes network namespaces and mounts.
	Root bool
	// Port is one on the loopback interface that has to be free; 0 for none.
	Port int
}

// Check returns one sentence for each thing that is missing.
func Check(n Needs) []string {
	var missing []string
	for _, name := range []string{"git", "go", "make"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name+" is not installed: install it and put it on PATH")
		}
	}
	for _, folder := range n.Folders {
		free, err := freeBytes(folder)
		if err == nil && free < n.Disk {
			missing = append(missing, fmt.Sprintf("%s has %d GiB free and the tests need %d GiB: make room there", folder, free>>30, n.Disk>>30))
		}
	}
	if n.Root && os.Geteuid() != 0 {
		missing = append(missing, "the smoke tests make a cluster, which needs root: run as root, or set KUBECONFIG to a cluster that they may use")
	}
	if n.Port != 0 && inUse(n.Port) {
		missing = append(missing, fmt.Sprintf("port %d of 127.0.0.1 is in use, which the cluster of the smoke tests needs: end the program that listens there ('ss -ltnp' names it)", n.Port))
	}
	return missing
}

// freeBytes returns the space that is free in a folder, or in the nearest one above it that exists.
func freeBytes(folder string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return 0, err
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

func inUse(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = listener.Close()
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
