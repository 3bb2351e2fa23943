// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command network-policies enforces NetworkPolicies on Linux. On another system it says so.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "network-policies: cannot run on %s: it is a part of clusters on Linux\n", runtime.GOOS)
	os.Exit(1)
}
