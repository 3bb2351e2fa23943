// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command devcluster makes a real Kubernetes cluster on Linux. On another
// system it says so.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "devcluster: cannot make a cluster on %s: this tool needs Linux; "+
		"everything else of the project takes any cluster that KUBECONFIG points at\n", runtime.GOOS)
	os.Exit(1)
}
