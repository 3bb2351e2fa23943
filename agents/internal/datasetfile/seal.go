// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/store"
)

// lostAndFound is made by some file systems at the root of a volume.
const lostAndFound = "lost+found"

// Verify reads the files of a manifest that somebody else keeps in a folder, and fails where one is missing or another.
// Files that the manifest does not name are none of its business.
func Verify(ctx context.Context, folder string, m Manifest, log *slog.Logger) (Result, error) {
	result := Result{Digest: m.Digest(), Files: int64(len(m))}
	for i, file := range m {
		path := filepath.Join(folder, filepath.FromSlash(file.Path))
		if err := verify(ctx, path, file); err != nil {
			return Result{}, fmt.Errorf("file %s: %w", file.Path, err)
		}
		about, err := os.Stat(path)
		if err != nil {
			return Result{}, err
		}
		result.Bytes += about.Size()
		log.Info("a file of the dataset is verified", "path", file.Path, "files", i+1, "of", len(m))
	}
	return result, nil
}

// verify reads a file that somebody else keeps. One that is not there, or may not be read, is a store.Refused.
func verify(ctx context.Context, path string, file File) error {
	err := modelfile.Verify(ctx, path, modelfile.Wanted{SHA256: file.SHA256, Size: file.Size}, quiet)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return store.Refused{Why: err.Error()}
	}
	return err
}

// Open reads the manifest that somebody else keeps in a folder, and whose digest is known.
func Open(ctx context.Context, folder string, file File) (Manifest, error) {
	path := filepath.Join(folder, filepath.FromSlash(file.Path))
	if err := verify(ctx, path, file); err != nil {
		return nil, fmt.Errorf("the manifest %s: %w", file.Path, err)
	}
	content, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	return ReadManifest(content)
}

// Seal writes the manifest of all files that a volume has.
func Seal(ctx context.Context, folder string, maxBytes int64) (Result, error) {
	var files []File
	result := Result{}
	err := walk(folder, func(path string, about os.FileInfo) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if result.Bytes += about.Size(); result.Bytes > maxBytes {
			return TooLarge{path}
		}
		digest, err := modelfile.Digest(ctx, filepath.Join(folder, filepath.FromSlash(path)), io.Discard)
		files = append(files, File{Path: path, SHA256: digest, Size: about.Size()})
		return err
	})
	if err != nil {
		return Result{}, err
	}
	if len(files) == 0 {
		return Result{}, refuse("the steps wrote no files: have the last one write them to /output")
	}
	m, err := NewManifest(files)
	if err != nil {
		return Result{}, err
	}
	if err := flush(folder); err != nil {
		return Result{}, err
	}
	result.Digest, result.Files = m.Digest(), int64(len(m))
	return result, write(folder, m)
}

// flush brings all of the file system that a folder is on to disk: what steps wrote may be in the memory of the node
// alone, and would be lost with that behind the back of a version that counts as complete.
func flush(folder string) error {
	at, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(at.Fd())), at.Close())
}

// walk calls see with the path within a folder of every file that may be part of a version. What is no file is refused.
func walk(folder string, see func(path string, about os.FileInfo) error) error {
	return filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (path == ownFolder || path == lostAndFound):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return refuse("%s is no regular file: a dataset has no links, devices and sockets", path)
		}
		about, err := entry.Info()
		if err != nil {
			return err
		}
		return see(filepath.ToSlash(path), about)
	})
}
