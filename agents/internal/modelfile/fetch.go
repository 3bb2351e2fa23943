// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/store"
)

// unfinished ends the name of a file that is not whole.
const unfinished = ".part"

// bufferSize of copies, in bytes.
const bufferSize = 256 << 10

// stallTimeout is how long nothing may come of a file that is on its way: a server may hold a connection for good.
const stallTimeout = 2 * time.Minute

// errStalled is why a download was given up.
var errStalled = fmt.Errorf("nothing has come for %s", stallTimeout)

// Wanted is the file that a server is to have.
type Wanted struct {
	// SHA256 of the content, in hexadecimal digits.
	SHA256 string
	// Size in bytes; 0 where it is not known. More is never written.
	Size int64
}

// Progress is told how many bytes of how many are there, the latter 0 while it is not known.
type Progress func(done, total int64)

// WrongDigest says that a file is not the one that was asked for.
type WrongDigest struct{ Got, Want string }

// Error implements error.
func (e WrongDigest) Error() string {
	return fmt.Sprintf("the file has the SHA-256 digest %s, and %s is wanted", e.Got, e.Want)
}

// Lasting says whether it is of no use to try again: the source refuses it, or has another file.
func Lasting(err error) bool {
	return errors.As(err, new(store.Refused)) || errors.As(err, new(WrongDigest))
}

// Fetch returns the path of the file in a folder, and downloads it first where it is not there. A file has its name
// only once its digest was right, so it is not read again. Errors leave the part that is there for the next attempt,
// but for WrongDigest and one that is too large. A file that was completed and has another digest is downloaded once
// more from its beginning: its first part may be of what the source had before.
func Fetch(ctx context.Context, from Source, folder string, want Wanted, progress Progress) (string, error) {
	target := filepath.Join(folder, want.SHA256)
	switch _, err := os.Stat(target); {
	case err == nil:
		return target, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	part := target + unfinished
	digest, resumed, err := download(ctx, from, part, want, progress)
	if err == nil && digest != want.SHA256 && resumed {
		if err := os.Remove(part); err != nil {
			return "", err
		}
		digest, _, err = download(ctx, from, part, want, progress)
	}
	if err != nil {
		return "", err
	}
	if digest != want.SHA256 {
		return "", errors.Join(WrongDigest{Got: digest, Want: want.SHA256}, os.Remove(part))
	}
	if err := os.Rename(part, target); err != nil {
		return "", err
	}
	return target, atomicfile.SyncFolder(folder)
}

// KeepOnly makes a folder where there is none, and removes all of it but the files that are wanted and their parts.
func KeepOnly(folder string, wanted ...Wanted) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), unfinished)
		if slices.ContainsFunc(wanted, func(w Wanted) bool { return w.SHA256 == name }) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// download completes the part, and returns the digest of the whole, and whether there was a part that it completed.
func download(ctx context.Context, from Source, part string, want Wanted, progress Progress) (digest string,
	resumed bool, err error) {
	file, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	done, err := io.CopyBuffer(sum, file, make([]byte, bufferSize))
	if err != nil {
		return "", false, err
	}
	if want.Size > 0 && done >= want.Size {
		digest, err = settle(file, sum, done, want)
		return digest, true, err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	content, err := from.Open(ctx, done)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = content.Close() }()
	if content.Offset != done {
		// The source begins anew, and so does the file.
		sum, done = sha256.New(), 0
		if err := restart(file); err != nil {
			return "", false, err
		}
	}
	if want.Size > 0 && content.Size != unknownSize && content.Size != want.Size {
		return "", false, store.Refused{Why: fmt.Sprintf("the file has %d bytes at its source, and %d are wanted",
			content.Size, want.Size)}
	}
	resumed = done > 0
	total := max(content.Size, want.Size, 0)
	stall := time.AfterFunc(stallTimeout, func() { giveUp(errStalled) })
	defer stall.Stop()
	to := io.MultiWriter(file, sum, &counter{done: done, total: total, tell: func(done, total int64) {
		stall.Reset(stallTimeout)
		progress(done, total)
	}})
	most := io.Reader(content)
	if want.Size > 0 {
		most = io.LimitReader(content, want.Size-done+1)
	}
	copied, err := io.CopyBuffer(to, most, make([]byte, bufferSize))
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		err = cause
	}
	if err != nil {
		return "", false, fmt.Errorf("the download was cut off after %d bytes: %w", done+copied, withoutURL(err))
	}
	if done += copied; content.Size > done {
		return "", false, fmt.Errorf("the download was cut off after %d of %d bytes", done, content.Size)
	}
	digest, err = settle(file, sum, done, want)
	return digest, resumed, err
}

// settle has all of the file on disk, and returns its digest. One of another size than wanted is removed.
func settle(file *os.File, sum hash.Hash, done int64, want Wanted) (string, error) {
	if want.Size > 0 && done != want.Size {
		return "", errors.Join(fmt.Errorf("the file has not the %d bytes that are wanted", want.Size), os.Remove(file.Name()))
	}
	return hex.EncodeToString(sum.Sum(nil)), file.Sync()
}

func restart(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// counter tells how much was written.
type counter struct {
	done, total int64
	tell        Progress
}

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	c.done += int64(len(data))
	c.tell(c.done, c.total)
	return len(data), nil
}

// Verify reads a file that somebody else keeps, and fails where it is not the one that is wanted.
func Verify(ctx context.Context, path string, want Wanted, progress Progress) error {
	about, err := os.Stat(path)
	if err != nil {
		return err
	}
	if want.Size > 0 && about.Size() != want.Size {
		return store.Refused{Why: fmt.Sprintf("%s has %d bytes, and %d are wanted", path, about.Size(), want.Size)}
	}
	digest, err := Digest(ctx, path, &counter{total: about.Size(), tell: progress})
	if err != nil {
		return err
	}
	if digest != want.SHA256 {
		return WrongDigest{Got: digest, Want: want.SHA256}
	}
	return nil
}

// magic is what files of a format begin with, of the formats that have such a thing.
var magic = map[string]string{"GGUF": "GGUF"}

// CheckFormat fails where a file cannot be of a format. The empty one is not known.
func CheckFormat(path, format string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	first := make([]byte, len(magic[format]))
	if n, err := io.ReadFull(file, first); err != nil || string(first) != magic[format] {
		return fmt.Errorf("the file is none of the format %s: it begins with %q, and not with %q", format, first[:n],
			magic[format])
	}
	return nil
}

// Digest is the SHA-256 digest of a file in hexadecimal digits. What is read of it goes to also as well.
func Digest(ctx context.Context, path string, also io.Writer) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(sum, also), reading{ctx, file}, make([]byte, bufferSize)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// reading ends with its context.
type reading struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r reading) Read(data []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(data)
}
