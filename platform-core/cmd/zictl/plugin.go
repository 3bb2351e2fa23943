// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
)

func pluginCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "plugin",
		Short: "Work on the folder of a plugin, <name>/<version>",
	}
	command.AddCommand(checkCommand(), renderCommand(), testCommand(), packageCommand())
	return command
}

// load checks a plugin and prints every error, one in a line as file:line: message.
func load(dir string, stderr io.Writer) (*plugin.Bundle, map[plugin.Part]plugin.Source, error) {
	bundle, sources, errs := pluginfolder.Load(dir)
	for _, err := range errs {
		fmt.Fprintln(stderr, err.Error())
	}
	if len(errs) > 0 {
		return nil, nil, errReported
	}
	return bundle, sources, nil
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Check a plugin and print every error with its file and line",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bundle, _, err := load(args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s is valid (%s)\n", bundle.Manifest.Name, bundle.Manifest.Version, bundle.Digest)
			return nil
		},
	}
}

func renderCommand() *cobra.Command {
	var file, output string
	command := &cobra.Command{
		Use:   "render DIR -f application.yaml",
		Short: "Print the objects that an Application becomes",
		Long:  "Print the objects that an Application becomes. -f - reads it from the standard input.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "yaml" {
				return fmt.Errorf("cannot print as %q: the output is yaml", output)
			}
			bundle, _, err := load(args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			data, err := readInput(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			app, place, err := pluginfolder.ReadInput(data, file)
			if err != nil {
				return err
			}
			out, refusal, err := pluginfolder.Render(bundle, app, place)
			if err != nil {
				return err
			}
			if refusal != nil {
				return fmt.Errorf("refused (%s): %w", refusal.Reason, refusal)
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	command.Flags().StringVarP(&file, "file", "f", "", "file with the Application")
	command.Flags().StringVarP(&output, "output", "o", "yaml", "format: yaml")
	cobra.CheckErr(command.MarkFlagRequired("file"))
	return command
}

func readInput(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read Application: %w", err)
	}
	return data, nil
}

func testCommand() *cobra.Command {
	mode := pluginfolder.Compare
	command := &cobra.Command{
		Use:   "test DIR",
		Short: "Compare testdata/*.in.yaml, rendered, with testdata/*.out.yaml",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bundle, _, err := load(args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			results, err := pluginfolder.Test(args[0], bundle, mode)
			if err != nil {
				return err
			}
			for _, r := range results {
				if r.Err != nil {
					fmt.Fprintf(cmd.OutOrStdout(), "FAIL %s: %v\n", r.Case, r.Err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "ok   %s\n", r.Case)
			}
			if slices.ContainsFunc(results, func(r pluginfolder.Result) bool { return r.Err != nil }) {
				return errReported
			}
			return nil
		},
	}
	command.Flags().BoolFunc("update", "write the golden files instead", func(value string) error {
		update, err := strconv.ParseBool(value)
		if update {
			mode = pluginfolder.Update
		}
		return err
	})
	return command
}

func packageCommand() *cobra.Command {
	var namespace string
	command := &cobra.Command{
		Use:   "package DIR",
		Short: "Print the five ConfigMaps of a plugin",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, sources, err := load(args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			objects, err := pluginfolder.Package(sources, namespace)
			if err != nil {
				return err
			}
			out, err := pluginfolder.Write(objects)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	}
	command.Flags().StringVar(&namespace, "namespace", "", "namespace of the ConfigMaps; none when empty")
	return command
}
