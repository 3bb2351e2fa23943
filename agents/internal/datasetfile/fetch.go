// SPDX-License-Identifier: Apache-2.0

package datasetfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/store"
)

// attempts to fetch one file in a row that bring nothing new.
const attempts = 6

// refusedAttempts are those where the source refuses the file. What lets the user in, or has the file there, may be
// made at this moment, from the same manifests as the version; but a mistake is to be told soon.
const refusedAttempts = 4

// manifestLimit is how large the manifest of a source may be, in bytes.
const manifestLimit = 16 << 20

// TooLarge says that a version does not fit where it is to be.
type TooLarge struct{ Path string }

// Error implements error.
func (e TooLarge) Error() string {
	return fmt.Sprintf("file %s does not fit: the version is larger than its claim; add a version of a larger size",
		e.Path)
}

// Lasting says whether it is of no use to prepare the version again as it is: somebody has to change something.
func Lasting(err error) bool { return modelfile.Lasting(err) || errors.As(err, new(TooLarge)) }

// Fetcher brings files to a volume.
type Fetcher struct {
	// Source of a file by its path.
	Source func(path string) modelfile.Source
	// Folder is the volume.
	Folder string
	// MaxBytes of all files.
	MaxBytes int64
	// Pause before a file is tried again. It doubles with each attempt.
	Pause time.Duration
	// Log is told how far it is.
	Log *slog.Logger
	// Tracker knows how far it is.
	Tracker Tracker
}

// Manifest fetches the manifest that a source has.
func (f *Fetcher) Manifest(ctx context.Context, file File) (Manifest, error) {
	path, err := f.download(ctx, file, manifestLimit, quiet)
	if errors.As(err, new(TooLarge)) {
		return nil, errors.Join(refuse("the manifest %s has more than %d MiB: make several versions of fewer files",
			file.Path, manifestLimit>>20), f.discard(nil))
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest %s is not to be had: %w", file.Path, err)
	}
	content, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	m, err := ReadManifest(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Path, err)
	}
	return m, nil
}

// Fetch brings all files of a manifest to the volume, and fails where that has others. A file that is there is read,
// and not fetched again where its digest is right; the part of one that is there is completed. Never are more than
// MaxBytes of files on the volume, and of a version that has more nothing stays there.
func (f *Fetcher) Fetch(ctx context.Context, m Manifest) (Result, error) {
	if err := f.fits(m); err != nil {
		return Result{}, errors.Join(err, f.discard(m))
	}
	result, err := f.fetch(ctx, m)
	if errors.As(err, new(TooLarge)) {
		return Result{}, errors.Join(err, f.discard(m))
	}
	return result, err
}

// fits fails where the sizes that are known are too much together.
func (f *Fetcher) fits(m Manifest) error {
	left := f.MaxBytes
	for _, file := range m {
		if left -= file.Size; left < 0 {
			return TooLarge{file.Path}
		}
	}
	return nil
}

// discard removes the files of a manifest from the volume, with the folders that have nothing else, and the part of
// one.
func (f *Fetcher) discard(m Manifest) error {
	err := os.RemoveAll(filepath.Join(f.Folder, ownFolder))
	for _, file := range m {
		path := filepath.FromSlash(file.Path)
		if failed := os.Remove(filepath.Join(f.Folder, path)); failed != nil && !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		for folder := filepath.Dir(path); folder != "."; folder = filepath.Dir(folder) {
			_ = os.Remove(filepath.Join(f.Folder, folder)) // It has something else, or is gone.
		}
	}
	return err
}

// fetch brings all files of a manifest to the volume.
func (f *Fetcher) fetch(ctx context.Context, m Manifest) (Result, error) {
	result := Result{Digest: m.Digest(), Files: int64(len(m))}
	f.Tracker.begin(m)
	percent := 0
	for i, file := range m {
		size, err := f.file(ctx, file, f.MaxBytes-result.Bytes, func(done, total int64) {
			f.Tracker.reading(i, result.Bytes, done, total)
		})
		if large, is := errors.AsType[TooLarge](err); is {
			return Result{}, large
		}
		if err != nil {
			return Result{}, fmt.Errorf("file %s: %w", file.Path, err)
		}
		result.Bytes += size
		f.Tracker.has(i, result.Bytes, size)
		if now := (i + 1) * 100 / len(m); now != percent {
			percent = now
			f.Log.Info("files of the dataset are here", "files", i+1, "of", len(m), "bytes", result.Bytes,
				"percent", percent)
		}
	}
	if err := f.onlyThese(m); err != nil {
		return Result{}, err
	}
	return result, write(f.Folder, m)
}

// file brings one, and returns its size.
func (f *Fetcher) file(ctx context.Context, file File, most int64, progress modelfile.Progress) (int64, error) {
	target := filepath.Join(f.Folder, filepath.FromSlash(file.Path))
	want := modelfile.Wanted{SHA256: file.SHA256, Size: file.Size}
	if modelfile.Verify(ctx, target, want, quiet) != nil {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		path, err := f.download(ctx, file, most, progress)
		if err != nil {
			return 0, err
		}
		folder := filepath.Dir(target)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return 0, err
		}
		if err := errors.Join(os.Rename(path, target), atomicfile.SyncFolder(folder)); err != nil {
			return 0, err
		}
	}
	about, err := os.Stat(target)
	if err != nil {
		return 0, err
	}
	if about.Size() > most {
		return 0, TooLarge{file.Path}
	}
	return about.Size(), nil
}

// download fetches a file into the volume's own folder, and tries again while that may help.
func (f *Fetcher) download(ctx context.Context, file File, most int64, progress modelfile.Progress) (string, error) {
	if file.Size > most {
		return "", TooLarge{file.Path}
	}
	from := bounded{f.Source(file.Path), file.Path, most}
	want, folder := modelfile.Wanted{SHA256: file.SHA256, Size: file.Size}, filepath.Join(f.Folder, ownFolder, "part")
	if err := modelfile.KeepOnly(folder, want); err != nil {
		return "", err
	}
	pause, best := f.Pause, int64(0)
	for attempt := 1; ; attempt++ {
		path, err := modelfile.Fetch(ctx, from, folder, want, func(done, total int64) {
			progress(done, total)
			if done > best {
				best, attempt, pause = done, 1, f.Pause
			}
		})
		if err == nil || attempt >= attemptsAfter(err) || ctx.Err() != nil {
			return path, err
		}
		f.Log.Warn("a file is tried again", "path", file.Path, "after", pause.String(), "error", err.Error())
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// attemptsAfter says how many attempts there are after an error.
func attemptsAfter(err error) int {
	switch {
	case errors.As(err, new(store.Refused)):
		return refusedAttempts
	case Lasting(err):
		return 1
	}
	return attempts
}

// onlyThese fails where the volume has files that the manifest does not name.
func (f *Fetcher) onlyThese(m Manifest) error {
	named := map[string]bool{}
	for _, file := range m {
		named[file.Path] = true
	}
	return walk(f.Folder, func(path string, _ os.FileInfo) error {
		if !named[path] {
			return refuse("the volume has the file %q, which the manifest does not name", path)
		}
		return nil
	})
}

// write writes the manifest to its volume.
func write(folder string, m Manifest) error {
	path := filepath.Join(folder, filepath.FromSlash(ManifestPath))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, m.Text(), 0o644)
}

func quiet(int64, int64) {}

// bounded is a source of at most so many bytes.
type bounded struct {
	modelfile.Source
	path string
	most int64
}

// Open implements modelfile.Source.
func (b bounded) Open(ctx context.Context, offset int64) (modelfile.Content, error) {
	content, err := b.Source.Open(ctx, offset)
	if err != nil {
		return content, err
	}
	if content.Size > b.most {
		return modelfile.Content{}, errors.Join(TooLarge{b.path}, content.Close())
	}
	content.ReadCloser = &limited{content.ReadCloser, b.path, b.most - content.Offset}
	return content, nil
}

// limited fails beyond so many bytes.
type limited struct {
	io.ReadCloser
	path string
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(data []byte) (int, error) {
	n, err := l.ReadCloser.Read(data)
	if l.left -= int64(n); l.left < 0 {
		return 0, TooLarge{l.path}
	}
	return n, err
}
