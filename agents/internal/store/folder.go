// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// incoming has what is not whole yet.
	incoming = ".incoming"
	// staleAfter is the age at which nobody goes on with what is not whole.
	staleAfter = 24 * time.Hour
)

// Folder is a Store in a folder, of a local volume or of NFS. It must be there: a volume that is not mounted has none.
type Folder struct {
	root string
	// group of all that is made, where that is not left to the file system.
	group Group
}

// Group is the number of a group; the zero value is whichever one the file system gives.
type Group int

// NewFolder returns the store in a folder. What others left unfinished there a day ago is removed.
func NewFolder(root string) (*Folder, error) { return NewFolderOf(0, root) }

// NewFolderOf returns the store in a folder whose users are several, of one group: it gets all that is made, as far as
// the file system lets it.
func NewFolderOf(group Group, root string) (*Folder, error) {
	root = filepath.Clean(root)
	f := &Folder{root: root, group: group}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no folder %s: is its volume mounted?", root)
	}
	if err := os.Mkdir(f.path(incoming), 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	f.share(f.path(incoming))
	entries, err := os.ReadDir(f.path(incoming))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(f.path(incoming, entry.Name()))
		}
	}
	return f, nil
}

// String implements Store.
func (f *Folder) String() string { return f.root }

func (f *Folder) path(elements ...string) string {
	return filepath.Join(append([]string{f.root}, elements...)...)
}

// Put implements Store. The name is given by a link, which fails where there is one.
func (f *Folder) Put(ctx context.Context, name string, content io.ReadSeeker, size int64) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	if err := f.isThere(); err != nil {
		return err
	}
	target := f.path(name)
	if _, err := os.Lstat(target); err == nil {
		return f.exists(target)
	}
	if err := f.makeFolder(filepath.Dir(target)); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.path(incoming), "*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	if _, err = content.Seek(0, io.SeekStart); err == nil {
		var written int64
		if written, err = io.Copy(file, readerOf(ctx, content)); err == nil && written != size {
			err = fmt.Errorf("%d bytes came of %d", written, size)
		}
	}
	f.give(file.Name())
	if err = errors.Join(err, file.Chmod(0o640), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Link(file.Name(), target); errors.Is(err, fs.ErrExist) {
		return f.exists(target)
	} else if err != nil {
		return err
	}
	return f.settle(filepath.Dir(target))
}

// exists says that something has a name, once that is for good: whoever gave the name may not have come to that.
func (f *Folder) exists(target string) error {
	if err := f.settle(filepath.Dir(target)); err != nil {
		return err
	}
	return ErrExists
}

// settle has a folder and those above it, up to the root, be there for good with the names that they have: those that
// were there already may have been made by somebody who was stopped before that.
func (f *Folder) settle(folder string) error {
	for {
		if err := syncFolder(folder); err != nil || folder == f.root {
			return err
		}
		folder = filepath.Dir(folder)
	}
}

// isThere says whether the volume is: one that went away leaves an empty folder, or none, and nothing may be kept or
// missed there.
func (f *Folder) isThere() error {
	if _, err := os.Stat(f.path(incoming)); err != nil {
		return fmt.Errorf("the store is not there any more: %w", err)
	}
	return nil
}

// makeFolder makes a folder and those above it, for good, up to the root.
func (f *Folder) makeFolder(path string) error {
	if info, err := os.Stat(path); path == f.root || err == nil && info.IsDir() {
		return err
	}
	above := filepath.Dir(path)
	if err := f.makeFolder(above); err != nil {
		return err
	}
	switch err := os.Mkdir(path, 0o750); {
	case errors.Is(err, fs.ErrNotExist) && f.isThere() == nil:
		// The folder above was empty, and somebody removed it.
		return f.makeFolder(path)
	case err != nil && !errors.Is(err, fs.ErrExist):
		return err
	case err == nil:
		f.share(path)
	}
	return syncFolder(above)
}

// Open implements Store.
func (f *Folder) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		if err := f.isThere(); err != nil {
			return nil, err
		}
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{readerOf(ctx, file), file}, nil
}

// Head implements Store.
func (f *Folder) Head(ctx context.Context, name string, count int) ([]byte, error) {
	file, err := f.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, int64(count)))
}

// List implements Store.
func (f *Folder) List(ctx context.Context, folder, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := f.names(folder)
		if err != nil {
			yield("", err)
			return
		}
		slices.Sort(names)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if name > after && !yield(name, nil) {
				return
			}
		}
	}
}

func (f *Folder) names(folder string) ([]string, error) {
	if err := checkName(folder); err != nil {
		return nil, err
	}
	var names []string
	err := f.walk(folder, func(path string, _ fs.DirEntry) error {
		name, err := filepath.Rel(f.root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "/.") }), err
}

// share lets those of the same group make names in a folder: users of one volume may be several. Only who made the
// folder can do so. What is made in it by others has its group as well, where that is known.
func (f *Folder) share(path string) {
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	mode := info.Mode() | 0o070
	if f.group != 0 {
		mode |= fs.ModeSetgid
	}
	f.give(path)
	_ = os.Chmod(path, mode)
}

// give has the group own what was made. A file system that maps all users to one knows no groups, and needs none.
func (f *Folder) give(path string) {
	if f.group != 0 {
		_ = os.Lchown(path, -1, int(f.group))
	}
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// readerOf ends with the context.
func readerOf(ctx context.Context, from io.Reader) io.Reader { return ending{ctx, from} }

type ending struct {
	ctx  context.Context
	from io.Reader
}

func (e ending) Read(p []byte) (int, error) {
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	return e.from.Read(p)
}
