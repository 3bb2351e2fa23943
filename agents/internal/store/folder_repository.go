// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// unfinished begins the names of large objects that are not whole.
const unfinished = ".unfinished-"

var _ Repository = (*Folder)(nil)

// Below returns the store in a folder of this one, which is made where there is none.
func (f *Folder) Below(folder string) (*Folder, error) {
	if err := checkName(folder); err != nil {
		return nil, err
	}
	if err := f.makeFolder(f.path(folder)); err != nil {
		return nil, err
	}
	if err := f.settle(filepath.Dir(f.path(folder))); err != nil {
		return nil, err
	}
	return NewFolderOf(f.group, f.path(folder))
}

// Make makes a folder in it, for a program that has a way of its own to write there.
func (f *Folder) Make(folder string) error {
	if err := errors.Join(checkName(folder), f.isThere()); err != nil {
		return err
	}
	return f.makeFolder(f.path(folder))
}

// Replace implements Repository, by a rename.
func (f *Folder) Replace(ctx context.Context, name string, content []byte) (err error) {
	if err := errors.Join(checkName(name), f.isThere(), context.Cause(ctx)); err != nil {
		return err
	}
	target := f.path(name)
	if err := f.makeFolder(filepath.Dir(target)); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.path(incoming), "*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o660), file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(target))
}

// ReadRange implements Repository.
func (f *Folder) ReadRange(_ context.Context, name string, offset int64, size int) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	file, err := os.Open(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(f.isThere(), ErrAbsent)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, size)
	if _, err := file.ReadAt(data, offset); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return data, nil
}

// Remove implements Repository.
func (f *Folder) Remove(_ context.Context, name string) error {
	if err := errors.Join(checkName(name), f.isThere()); err != nil {
		return err
	}
	target := f.path(name)
	if err := os.Remove(target); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// Clear implements Repository. Folders above that are empty then are removed as well, but for the root.
func (f *Folder) Clear(_ context.Context, folder string) error {
	if err := errors.Join(checkName(folder), f.isThere()); err != nil {
		return err
	}
	target := f.path(folder)
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	above := filepath.Dir(target)
	// Whoever makes an object there meanwhile keeps its folder: one that is not empty is not removed.
	for above != f.root && absent(os.Remove(above)) == nil {
		above = filepath.Dir(above)
	}
	return syncFolder(above)
}

// AbandonOf implements Repository.
func (f *Folder) AbandonOf(_ context.Context, name string) error {
	if err := errors.Join(checkName(name), f.isThere()); err != nil {
		return err
	}
	return absent(os.Remove(f.unfinished(name)))
}

// unfinished is where an object is that is not whole: where it will be, so that it goes with its folder.
func (f *Folder) unfinished(name string) string {
	target := f.path(name)
	return filepath.Join(filepath.Dir(target), unfinished+filepath.Base(target))
}

// absent takes what is not there for removed.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Objects implements Repository.
func (f *Folder) Objects(ctx context.Context, folder string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := f.walk(folder, func(path string, entry fs.DirEntry) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			name, err := filepath.Rel(f.root, path)
			if err != nil || !IsName(filepath.ToSlash(name)) {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return absent(err)
			}
			if !yield(Object{Name: filepath.ToSlash(name), Size: info.Size()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// walk has visit see every file below a folder. What is removed meanwhile is not there: the rest is visited all the
// same, as one file that goes says nothing of the others. It fails where the whole place is not there, before or after.
func (f *Folder) walk(folder string, visit func(path string, entry fs.DirEntry) error) error {
	if err := f.isThere(); err != nil {
		return err
	}
	err := filepath.WalkDir(f.path(folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return absent(err)
		}
		return visit(path, entry)
	})
	if err != nil {
		return err
	}
	return f.isThere()
}

// Free implements Repository.
func (f *Folder) Free(context.Context) (*int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(f.root, &stat); err != nil {
		return nil, fmt.Errorf("cannot ask for the room in %s: %w", f.root, err)
	}
	free := int64(stat.Bavail) * stat.Bsize
	return &free, nil
}

// folderUpload is a file under another name.
type folderUpload struct {
	folder *Folder
	file   *os.File
	target string

	mu   sync.Mutex
	size int64
}

// Begin implements Repository.
func (f *Folder) Begin(_ context.Context, name string) (Upload, error) {
	if err := errors.Join(checkName(name), f.isThere()); err != nil {
		return nil, err
	}
	target := f.path(name)
	if err := f.makeFolder(filepath.Dir(target)); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.unfinished(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o660)
	if err != nil {
		return nil, err
	}
	return &folderUpload{folder: f, file: file, target: target}, nil
}

// Send implements Upload.
func (u *folderUpload) Send(_ context.Context, number int, data []byte) error {
	offset := int64(number-1) * PieceSize
	if _, err := u.file.WriteAt(data, offset); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.size = max(u.size, offset+int64(len(data)))
	return nil
}

// Finish implements Upload.
func (u *folderUpload) Finish(context.Context) error {
	info, err := u.file.Stat()
	if err == nil && info.Size() != u.size {
		err = fmt.Errorf("the volume has %d bytes of %d that were written", info.Size(), u.size)
	}
	if err = errors.Join(err, u.file.Chmod(0o660), u.file.Sync(), u.file.Close()); err == nil {
		err = os.Rename(u.file.Name(), u.target)
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(u.target))
}

// Abandon implements Upload.
func (u *folderUpload) Abandon(context.Context) error {
	_ = u.file.Close()
	return absent(os.Remove(u.file.Name()))
}
