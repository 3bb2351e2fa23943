// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of the image maker.
package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/hack/images/internal/build"
	"github.com/zeroinfra/hack/images/internal/definition"
)

// definitions is the folder of the definitions inside the repository.
const definitions = "hack/images"

// settings are the flags that several commands share.
type settings struct {
	repo, out, version string
}

// New returns the root command.
func New() *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:           "images",
		Short:         "Make OCI images from Debian packages, Maven artifacts and the suite's own programs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&s.repo, "repo", "", "top of the repository (default: the nearest folder upwards that holds "+
		definitions+")")
	flags.StringVar(&s.version, "version", "",
		"version of the suite's own programs (default: content of file VERSION, or dev)")
	root.AddCommand(listCommand(s), buildCommand(s), pushCommand(s), packagesCommand(s), lockCommand(s))
	return root
}

// outFlag adds the flag for the folder of archives.
func (s *settings) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.out, "out", "", "folder of the archives (default: dist/images in the repository)")
}

// builder returns a builder for the repository with all images that it defines.
func (s *settings) builder() (*build.Builder, []*definition.Image, error) {
	repo, err := s.findRepo()
	if err != nil {
		return nil, nil, err
	}
	version, err := s.findVersion(repo)
	if err != nil {
		return nil, nil, err
	}
	base, found, err := definition.Load(filepath.Join(repo, definitions))
	if err != nil {
		return nil, nil, err
	}
	var images []*definition.Image
	for _, source := range found {
		more, err := source.Images(base, version)
		if err != nil {
			return nil, nil, err
		}
		images = append(images, more...)
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, nil, err
	}
	epoch, err := epoch()
	if err != nil {
		return nil, nil, err
	}
	out := s.out
	if out == "" {
		out = filepath.Join(repo, "dist/images")
	}
	return &build.Builder{Repo: repo, Out: out, Cache: cache, Arch: runtime.GOARCH, Epoch: epoch}, images, nil
}

func (s *settings) findRepo() (string, error) {
	if s.repo != "" {
		return filepath.Abs(s.repo)
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, definitions, definition.BaseFileName)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("cannot find %s/%s in %q or above: give --repo", definitions, definition.BaseFileName, start)
		}
	}
}

func (s *settings) findVersion(repo string) (string, error) {
	if s.version != "" {
		return s.version, nil
	}
	data, err := os.ReadFile(filepath.Join(repo, "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return "dev", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read version: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// cacheDir is where everything is kept that can be made again.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("cannot find cache folder: set XDG_CACHE_HOME or HOME: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Abs(filepath.Join(base, "zeroinfra/images"))
}

// epoch is the time that all files in images have.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// picked returns a builder, and the images with the given names.
func (s *settings) picked(names []string) (*build.Builder, []*definition.Image, error) {
	builder, images, err := s.builder()
	if err != nil {
		return nil, nil, err
	}
	images, err = pick(images, names)
	return builder, images, err
}

// pick returns the images with the given names: NAME means all variants, NAME:TAG one.
func pick(images []*definition.Image, names []string) ([]*definition.Image, error) {
	var picked []*definition.Image
	for _, name := range names {
		found := false
		for _, image := range images {
			if name != image.Name && name != image.Name+":"+image.Tag {
				continue
			}
			found = true
			if !slices.Contains(picked, image) {
				picked = append(picked, image)
			}
		}
		if !found {
			return nil, fmt.Errorf("no image is called %q: see \"images list\"", name)
		}
	}
	return picked, nil
}
