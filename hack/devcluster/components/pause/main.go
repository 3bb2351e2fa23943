// SPDX-License-Identifier: Apache-2.0

// Command pause is the first process of a pod's sandbox and of a node: it
// holds the namespaces, reaps processes whose parent has ended, and ends on
// SIGINT or SIGTERM.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for {
		// Reaping before the first wait catches children that ended before
		// the handler was in place.
		reap()
		if s := <-signals; s != syscall.SIGCHLD {
			return
		}
	}
}

// reap collects every child that has ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
