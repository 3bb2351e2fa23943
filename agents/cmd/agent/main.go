// SPDX-License-Identifier: Apache-2.0

// Command agent is the one binary that runs in a pod beside and around the
// middleware: as an init container that copies it there (init), as PID 1 of the
// middleware's container (run), and as the status agent (status).
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/writing"
)

// version is set when the binary is built.
var version = "dev"

// exitCode is an error that only carries the exit code of the supervised process.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func main() {
	os.Exit(execute())
}

func execute() int {
	if len(os.Args) == 2 && os.Args[1] == writing.SentinelCommand {
		return sentinel()
	}
	root := program.Root("agent", "Run and watch one middleware process in a pod", version, initCommand(), runCommand(),
		statusCommand())
	err := root.Execute()
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "agent: %v\n", err)
	return 1
}
