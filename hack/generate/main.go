// SPDX-License-Identifier: Apache-2.0

// Command generate writes the files of the repository that are made from others:
// CustomResourceDefinitions with their revisions, accessors of statuses, the charts, the page of conditions and
// reasons, and the table of the lines of kinds. Its subcommand newkind writes what a new typed kind begins with.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/hack/generate/internal/accessors"
	"github.com/zeroinfra/hack/generate/internal/charts"
	"github.com/zeroinfra/hack/generate/internal/crds"
	"github.com/zeroinfra/hack/generate/internal/kindlines"
	"github.com/zeroinfra/hack/generate/internal/newkind"
	"github.com/zeroinfra/hack/generate/internal/plugins"
	"github.com/zeroinfra/hack/generate/internal/reasons"
	"github.com/zeroinfra/hack/generate/internal/repo"
)

func main() {
	root := &cobra.Command{
		Use:   "generate",
		Short: "Package the plugins into config/plugins, write charts/ and tables of docs/, or what a subcommand says",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withRoot(func(root string) error {
				return errors.Join(plugins.Write(root), charts.Write(root), reasons.Write(root), kindlines.Write(root))
			})
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
		&cobra.Command{
			Use:   "charts",
			Short: "Write charts/ only, with the plugins as they are packaged",
			Args:  cobra.NoArgs,
			RunE:  func(*cobra.Command, []string) error { return withRoot(charts.Write) },
		},
		&cobra.Command{
			Use:   "reasons",
			Short: "Write docs/conditions.md from the comments of condition types and reasons",
			Args:  cobra.NoArgs,
			RunE:  func(*cobra.Command, []string) error { return withRoot(reasons.Write) },
		},
		&cobra.Command{
			Use:   "kindlines",
			Short: "Write into docs/kinds/authoring.md how many hand-written lines each kind has",
			Args:  cobra.NoArgs,
			RunE:  func(*cobra.Command, []string) error { return withRoot(kindlines.Write) },
		},
		&cobra.Command{
			Use: "accessors FOLDER...",
			Short: "Write the methods by which the engine reads and writes the status of the objects " +
				"in folders of the repository",
			Args: cobra.MinimumNArgs(1),
			RunE: func(_ *cobra.Command, folders []string) error {
				return withRoot(func(root string) error {
					for i := range folders {
						folders[i] = filepath.Join(root, folders[i])
					}
					return accessors.Write(folders)
				})
			},
		},
		kindCommand(),
	)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func kindCommand() *cobra.Command {
	var request newkind.Request
	command := &cobra.Command{
		Use:   "newkind OPERATOR KIND PLUGIN",
		Short: "Write a new typed kind of a plugin into an operator: types, folder, tests, sample, page, entries",
		Args:  cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			request.Operator, request.Kind, request.Plugin = args[0], args[1], args[2]
			return withRoot(func(root string) error {
				if err := newkind.Clean(root); err != nil {
					return err
				}
				paths, err := newkind.Write(root, request)
				for _, path := range paths {
					fmt.Println("wrote", path)
				}
				return err
			})
		},
	}
	command.Flags().StringVar(&request.Topology, "topology", "", "topology of the plugin; its first one when empty")
	command.Flags().StringVar(&request.Plural, "plural", "", "plural in lower case; by the rules of English when empty")
	return command
}

func withRoot(do func(root string) error) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	return do(root)
}
