// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command devcluster makes a real Kubernetes cluster of several nodes on one
// Linux machine with root and without Docker. See README.md.
package main

import (
	"os"
	"runtime"

	"github.com/zeroinfra/hack/devcluster/internal/cli"
)

func init() {
	// Goroutines that enter namespaces or cgroups keep their thread and end
	// with it. The main thread cannot end, so it is kept for main alone.
	runtime.LockOSThread()
}

func main() {
	os.Exit(cli.Main(os.Args[1:]))
}
