// SPDX-License-Identifier: Apache-2.0

// Command zictl is the tool of plugin authors and of users: it checks, renders, tests and
// packages a plugin without a cluster, and says what an edited object would do in one and how far a Workflow is.
package main

import (
	"context"
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
	root.AddCommand(pluginCommand(), planCommand(), workflowCommand())
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(os.Stderr, "zictl:", err)
	}
	code := 1
	if end, ok := errors.AsType[exit](err); ok {
		code = end.code
	}
	os.Exit(code)
}
