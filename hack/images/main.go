// SPDX-License-Identifier: Apache-2.0

// Command images makes the OCI images of the suite from Debian packages and from
// the suite's own Go binaries, with no container daemon and no chroot.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/zeroinfra/hack/images/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cli.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}
