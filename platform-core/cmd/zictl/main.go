// SPDX-License-Identifier: Apache-2.0

// Command zictl is the tool of plugin authors: it checks, renders, tests and
// packages a plugin without a cluster.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// errReported ends the command with a failure whose details are printed already.
var errReported = errors.New("failed")

func main() {
	root := &cobra.Command{
		Use:           "zictl",
		Short:         "Tool of ZeroInfra",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(pluginCommand())
	if err := root.Execute(); err != nil {
		if !errors.Is(err, errReported) {
			fmt.Fprintln(os.Stderr, "zictl:", err)
		}
		os.Exit(1)
	}
}
