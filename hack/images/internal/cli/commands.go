// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/zeroinfra/hack/images/internal/build"
	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/oci"
)

func listCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show every image that can be built, and from what",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, images, err := s.builder()
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "NAME\tIMAGE\tFROM\tABOUT")
			for _, image := range images {
				fmt.Fprintf(table, "%s:%s\t%s\t%s\t%s\n", image.Name, image.Tag, image.Reference(), from(image), image.About)
			}
			return table.Flush()
		},
	}
}

// from says in a few words what an image is made of.
func from(image *definition.Image) string {
	var parts []string
	if image.Debian != nil {
		parts = append(parts, "Debian "+image.Debian.Suite)
	}
	if image.Maven != nil {
		parts = append(parts, "Maven")
	}
	for _, b := range image.Binaries {
		parts = append(parts, b.Module+"/"+strings.TrimPrefix(b.Package, "./"))
	}
	return strings.Join(parts, ", ")
}

func buildCommand(s *settings) *cobra.Command {
	var all, refresh bool
	cmd := &cobra.Command{
		Use:   "build NAME[:TAG]...",
		Short: "Build images into archives, unless their inputs have not changed",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("give either names of images or --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, images, err := s.builder()
			if err != nil {
				return err
			}
			if refresh {
				builder.Refresh = -1
			}
			if !all {
				if images, err = pick(images, names); err != nil {
					return err
				}
			}
			return buildAll(cmd, builder, images)
		},
	}
	s.outFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "build every image")
	cmd.Flags().BoolVar(&refresh, "refresh", false, "fetch package lists even when they are less than a day old")
	return cmd
}

// sideBySide is how many images are built at a time: programs are linked, and layers packed, by one core each.
const sideBySide = 2

// buildAll builds images, those of one name one after the other. One that fails keeps no other from being built.
func buildAll(cmd *cobra.Command, builder *build.Builder, images []*definition.Image) error {
	byName := map[string][]*definition.Image{}
	for _, image := range images {
		byName[image.Name] = append(byName[image.Name], image)
	}
	var printing sync.Mutex
	var failed []error
	var work errgroup.Group
	work.SetLimit(sideBySide)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		work.Go(func() error {
			for _, image := range byName[name] {
				if cmd.Context().Err() != nil {
					break
				}
				start := time.Now()
				result, err := builder.Build(cmd.Context(), image)
				printing.Lock()
				if err != nil {
					failed = append(failed, err)
				} else {
					report(cmd.OutOrStdout(), result, time.Since(start))
				}
				printing.Unlock()
			}
			return nil
		})
	}
	_ = work.Wait() // They say what failed by themselves.
	return errors.Join(append(failed, cmd.Context().Err())...)
}

// report prints what became of an image.
func report(out io.Writer, result build.Result, took time.Duration) {
	done := "up to date"
	if !result.UpToDate {
		done = fmt.Sprintf("built in %.1fs", took.Seconds())
	}
	fmt.Fprintf(out, "%s  %s  %s  %s\n", result.Reference, result.Digest, mebibytes(result.Size), done)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func pushCommand(s *settings) *cobra.Command {
	var registry string
	var insecure bool
	cmd := &cobra.Command{
		Use:   "push NAME[:TAG]...",
		Short: "Push built images to a registry, as HOST[/prefix]/repository:tag",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, images, err := s.picked(names)
			if err != nil {
				return err
			}
			var options []name.Option
			if insecure {
				options = append(options, name.Insecure)
			}
			for _, image := range images {
				ref, err := oci.Reference(strings.TrimRight(registry, "/"), image.Reference(), options...)
				if err != nil {
					return err
				}
				archive, err := builder.Open(image)
				if err != nil {
					return err
				}
				digest, err := archive.Image.Digest()
				if err == nil {
					err = oci.Push(cmd.Context(), ref, archive.Image)
				}
				if err := errors.Join(err, archive.Close()); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  pushed\n", ref, digest)
			}
			return nil
		},
	}
	s.outFlag(cmd)
	cmd.Flags().StringVar(&registry, "registry", "", "where to push: HOST[:PORT] or HOST[:PORT]/prefix")
	cmd.Flags().BoolVar(&insecure, "insecure", false, "use plain HTTP when the registry has no TLS")
	if err := cmd.MarkFlagRequired("registry"); err != nil {
		panic(err)
	}
	return cmd
}

func packagesCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "packages NAME[:TAG]",
		Short: "Show the exact Debian packages in a built image, as package=version",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, images, err := s.picked(names)
			if err != nil {
				return err
			}
			for _, image := range images {
				packages, err := builder.Packages(image)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "# %s\n", image.Reference())
				for _, p := range packages {
					fmt.Fprintln(cmd.OutOrStdout(), p)
				}
			}
			return nil
		},
	}
	s.outFlag(cmd)
	return cmd
}

func lockCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "lock NAME[:TAG]...",
		Short: "Write the lists of the Maven artifacts that images are made of, with their digests",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, images, err := s.picked(names)
			if err != nil {
				return err
			}
			for _, image := range images {
				text, err := builder.Lock(cmd.Context(), image)
				if err != nil {
					return err
				}
				file := filepath.Join(definitions, image.Name, image.LockName())
				if err := os.WriteFile(filepath.Join(builder.Repo, file), text, 0o644); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), file)
			}
			return nil
		},
	}
}
