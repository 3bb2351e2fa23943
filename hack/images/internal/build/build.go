// SPDX-License-Identifier: Apache-2.0

// Package build makes images from their definitions: it plans, decides whether
// anything has changed, assembles, checks and writes the archive.
package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroinfra/hack/images/internal/apt"
	"github.com/zeroinfra/hack/images/internal/definition"
	"github.com/zeroinfra/hack/images/internal/gobuild"
	"github.com/zeroinfra/hack/images/internal/maven"
	"github.com/zeroinfra/hack/images/internal/oci"
)

// Builder builds images, several at a time if they differ in their names: tags of one name share files of the cache.
type Builder struct {
	// Repo is the top of the repository, where modules of binaries are.
	Repo string
	// Out is the folder of the archives.
	Out string
	// Cache is the folder for everything that can be made again.
	Cache string
	// Host is the file system whose apt sources are used; empty means "/".
	Host string
	// Arch is the GOARCH of the images.
	Arch string
	// Epoch is the time of every file and layer.
	Epoch time.Time
	// Refresh is how old package lists may be; zero means a day, negative means fetch always.
	Refresh time.Duration
}

// Result tells what became of an image.
type Result struct {
	// Reference is repository:tag.
	Reference string
	// Archive is the file that holds the image.
	Archive string
	// Digest is that of the manifest, as a registry shows it.
	Digest string
	// Size is that of the compressed layers in bytes.
	Size int64
	// UpToDate tells that the archive was there already, made from the same inputs.
	UpToDate bool
}

// debianArch are Debian's names of architectures.
var debianArch = map[string]string{"amd64": "amd64", "arm64": "arm64"}

// ArchivePath is where the archive of an image goes.
func (b *Builder) ArchivePath(image *definition.Image) string {
	return filepath.Join(b.Out, image.ArchiveName())
}

// Build builds an image unless its archive was made from the same inputs.
func (b *Builder) Build(ctx context.Context, image *definition.Image) (Result, error) {
	result, err := b.build(ctx, image)
	if err != nil {
		return result, fmt.Errorf("cannot build image %q: %w", image.Reference(), err)
	}
	return result, nil
}

func (b *Builder) build(ctx context.Context, image *definition.Image) (Result, error) {
	if debianArch[b.Arch] == "" {
		return Result{}, fmt.Errorf("architecture %q is not known: use amd64 or arm64", b.Arch)
	}
	for _, dir := range []string{b.Out, b.Cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Result{}, err
		}
	}
	in := inputs{Image: image, Arch: b.Arch, Epoch: b.Epoch.Unix()}
	lock, err := readLock(image)
	if err != nil {
		return Result{}, err
	}
	in.Artifacts = lock.Artifacts
	if err := b.compile(ctx, &in); err != nil {
		return Result{}, err
	}
	if image.Debian == nil {
		return b.finish(ctx, in, nil)
	}
	root, err := apt.Open(ctx, apt.Options{
		Cache: b.Cache, Suite: image.Debian.Suite, Also: image.Debian.Also, Arch: debianArch[b.Arch], Host: b.Host,
		Refresh: b.Refresh,
	})
	if err != nil {
		return Result{}, err
	}
	result, err := b.fromPackages(ctx, in, root)
	if errors.Is(err, errStale) {
		// A mirror drops a package when a newer one is there: the lists are behind.
		if err = root.Update(ctx); err == nil {
			result, err = b.fromPackages(ctx, in, root)
		}
	}
	return result, errors.Join(err, root.Close())
}

// errStale marks a failure that newer package lists may cure.
var errStale = errors.New("package lists may be out of date")

func (b *Builder) fromPackages(ctx context.Context, in inputs, root *apt.Root) (Result, error) {
	var err error
	d := in.Image.Debian
	if in.Packages, err = root.Plan(ctx, d.Packages, d.Exclude); err != nil {
		return Result{}, err
	}
	if err := in.setVersion(); err != nil {
		return Result{}, err
	}
	return b.finish(ctx, in, root)
}

// compile builds the binaries and notes their checksums.
func (b *Builder) compile(ctx context.Context, in *inputs) error {
	in.Version = in.Image.Version
	for _, binary := range in.Image.Binaries {
		variable := binary.VersionVariable
		if variable == "" {
			variable = "main.version"
		}
		output := filepath.Join(b.Cache, "bin", in.Image.Name+"-"+b.Arch, filepath.FromSlash(binary.Path))
		sum, err := gobuild.Build(ctx, gobuild.Program{
			Dir: filepath.Join(b.Repo, filepath.FromSlash(binary.Module)), Package: binary.Package,
			VersionVariable: variable, Version: cmp.Or(binary.Version, in.Image.Version), Tags: binary.Tags, Arch: b.Arch,
			Output: output,
		})
		if err != nil {
			return err
		}
		in.Programs = append(in.Programs, program{Path: binary.Path, SHA256: sum, file: output})
	}
	return nil
}

// files are what was downloaded for an image.
type files struct {
	debs []apt.Deb
	jars []maven.Jar
}

// finish does the work that is left when all inputs are known.
func (b *Builder) finish(ctx context.Context, in inputs, root *apt.Root) (Result, error) {
	key, err := in.key()
	if err != nil {
		return Result{}, err
	}
	file := b.ArchivePath(in.Image)
	if result, err := describe(in.Image, file); err == nil && result.inputs == key {
		result.UpToDate = true
		return result.Result, nil
	}
	var debs []apt.Deb
	if root != nil {
		debs, err = root.Download(ctx, in.Packages)
		if err != nil && ctx.Err() == nil && !root.Fresh() {
			return Result{}, errors.Join(errStale, err)
		}
		// What is left needs no lists, which other images may wait for.
		if err := errors.Join(err, root.Close()); err != nil {
			return Result{}, err
		}
	}
	jars, err := b.fetchJars(ctx, in.Image)
	if err != nil {
		return Result{}, err
	}
	if err := b.write(ctx, in, files{debs, jars}, key, file); err != nil {
		return Result{}, err
	}
	result, err := describe(in.Image, file)
	return result.Result, err
}

// described is a Result with what the archive says about its inputs.
type described struct {
	Result
	inputs string
}

// describe reads the archive of an image.
func describe(image *definition.Image, file string) (described, error) {
	archive, err := oci.Open(file)
	if err != nil {
		return described{}, err
	}
	defer archive.Close()
	digest, err := archive.Image.Digest()
	if err != nil {
		return described{}, err
	}
	layers, err := archive.Image.Layers()
	if err != nil {
		return described{}, err
	}
	result := Result{Reference: image.Reference(), Archive: file, Digest: digest.String()}
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return described{}, err
		}
		result.Size += size
	}
	return described{result, archive.Inputs}, nil
}
