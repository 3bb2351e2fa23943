// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// self is this binary, whatever it is called and wherever it lies.
const self = "/proc/self/exe"

func initCommand() *cobra.Command {
	var to string
	var with []string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Copy this binary into a folder that the pod's containers share",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := filepath.Join(to, filepath.Base(plan.AgentPath))
			if err := copySelf(path); err != nil {
				return err
			}
			for _, name := range with {
				if err := copyNeighbour(name, to); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "copied agent %s to %s\n", version, path)
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", plan.BinDir, "folder to copy to; it must exist")
	cmd.Flags().StringSliceVar(&with, "with", nil, "names of other binaries beside this one to copy, too")
	return cmd
}

func copySelf(path string) error { return copyFile(self, path) }

// copyNeighbour copies a binary that lies beside this one.
func copyNeighbour(name, to string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the binaries beside the agent: %w", err)
	}
	return copyFile(filepath.Join(filepath.Dir(own), filepath.Base(name)), filepath.Join(to, filepath.Base(name)))
}

func copyFile(from, path string) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("cannot copy the agent: %w", err)
	}
	defer source.Close()
	return atomicfile.Copy(path, source, 0o755)
}
