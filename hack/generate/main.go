// SPDX-License-Identifier: Apache-2.0

// Command generate writes the files of the repository that are made from others:
// CustomResourceDefinitions with their revisions, and the charts.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/hack/generate/internal/charts"
	"github.com/zeroinfra/hack/generate/internal/crds"
	"github.com/zeroinfra/hack/generate/internal/plugins"
	"github.com/zeroinfra/hack/generate/internal/repo"
)

func main() {
	root := &cobra.Command{
		Use:   "generate",
		Short: "Package the plugins into config/plugins and write charts/, or what a subcommand says",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withRoot(func(root string) error { return errors.Join(plugins.Write(root), charts.Write(root)) })
		},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		&cobra.Command{
			Use:   "crds MODULE...",
			Short: "Write config/crd/bases of modules from their api/ folders, and raise the revision of what changed",
			Args:  cobra.MinimumNArgs(1),
			RunE: func(_ *cobra.Command, modules []string) error {
				return withRoot(func(root string) error { return crds.Write(root, modules) })
			},
		},
	)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func withRoot(do func(root string) error) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	return do(root)
}
