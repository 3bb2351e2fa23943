// SPDX-License-Identifier: Apache-2.0

// Package rootfs assembles the file system of an image as a list of entries with
// owners and modes, so that nothing is extracted, no right of root is needed, and
// layers come out the same every time.
package rootfs

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Entry is one file, folder or symbolic link of an image.
type Entry struct {
	// Path is absolute inside the image, without the leading slash.
	Path string
	// Type is tar.TypeReg, tar.TypeDir or tar.TypeSymlink.
	Type byte
	// Mode holds the permission bits with setuid, setgid and sticky.
	Mode     int64
	UID, GID int
	// Target is where a symbolic link points to.
	Target string
	// Origin says in error messages where the entry came from.
	Origin string

	content *content
	layer   int
	// implied marks a folder that only exists because something is in it.
	implied bool
}

// content is a file's bytes inside the spool; files with the same bytes share one.
type content struct{ offset, size int64 }

// Tree is the file system of an image under construction.
type Tree struct {
	entries  map[string]*Entry
	contents map[[sha256.Size]byte]*content
	spool    *os.File
	end      int64
	layers   []string
}

// New returns an empty tree at its first layer, whose file contents are kept in an
// unnamed file in dir; note ends up in the image's history. Close releases the contents.
func New(dir, note string) (*Tree, error) {
	spool, err := os.CreateTemp(dir, "rootfs-*")
	if err != nil {
		return nil, fmt.Errorf("cannot make spool file: %w", err)
	}
	if err := os.Remove(spool.Name()); err != nil {
		return nil, errors.Join(err, spool.Close())
	}
	return &Tree{
		entries: map[string]*Entry{}, contents: map[[sha256.Size]byte]*content{},
		spool: spool, layers: []string{note},
	}, nil
}

// Close releases the contents.
func (t *Tree) Close() error { return t.spool.Close() }

// StartLayer makes what is put from now on part of a new layer.
func (t *Tree) StartLayer(note string) { t.layers = append(t.layers, note) }

// Entry returns what is at a path, not following a symbolic link there, or nil.
func (t *Tree) Entry(name string) *Entry { return t.entries[clean(name)] }

// Paths returns the paths of all entries in order.
func (t *Tree) Paths() []string { return slices.Sorted(maps.Keys(t.entries)) }

// Open returns the content of a regular file.
func (t *Tree) Open(e *Entry) *io.SectionReader {
	return io.NewSectionReader(t.spool, e.content.offset, e.content.size)
}

// ReadFile returns the content of a regular file, following symbolic links.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	e := t.Resolve(name)
	if e == nil || e.Type != tar.TypeReg {
		return nil, fmt.Errorf("no file %q in the image", name)
	}
	return io.ReadAll(t.Open(e))
}

// PutDir adds a folder. A folder that is there already keeps its mode and owner
// unless it was only implied, and a symbolic link to a folder stays.
func (t *Tree) PutDir(e Entry) error {
	e.Type = tar.TypeDir
	return t.put(e)
}

// PutSymlink adds a symbolic link.
func (t *Tree) PutSymlink(e Entry) error {
	e.Type, e.Mode = tar.TypeSymlink, 0o777
	return t.put(e)
}

// PutFile adds a regular file with the bytes of r.
func (t *Tree) PutFile(e Entry, r io.Reader) error {
	e.Type = tar.TypeReg
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(io.NewOffsetWriter(t.spool, t.end), h), r)
	if err != nil {
		return fmt.Errorf("cannot store content of %q: %w", e.Path, err)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if t.contents[sum] == nil {
		t.contents[sum] = &content{offset: t.end, size: n}
		t.end += n
	}
	e.content = t.contents[sum]
	return t.put(e)
}

// putHardLink adds another name of a regular file.
func (t *Tree) putHardLink(e Entry, target string) error {
	old := t.Resolve(target)
	if old == nil || old.Type != tar.TypeReg {
		return fmt.Errorf("hard link %q points to %q, which is no file", e.Path, target)
	}
	link := *old
	link.Path, link.Origin = e.Path, e.Origin
	return t.put(link)
}

func (t *Tree) put(e Entry) error {
	name := clean(e.Path)
	if name == "" {
		return nil
	}
	parent, err := t.parent(path.Dir(name), e.Origin)
	if err != nil {
		return err
	}
	e.Path = path.Join(parent, path.Base(name))
	e.layer = len(t.layers) - 1
	old := t.entries[e.Path]
	switch {
	case old == nil || old.implied && e.Type == tar.TypeDir:
	case e.Type == tar.TypeDir && t.isDir(e.Path), equal(old, &e):
		return nil
	default:
		return fmt.Errorf("/%s comes from %s and from %s: leave one of them out", e.Path, old.Origin, e.Origin)
	}
	t.entries[e.Path] = &e
	return nil
}

// parent returns the real path of a folder, which it makes when it is missing.
func (t *Tree) parent(dir, origin string) (string, error) {
	if dir == "." || dir == "" {
		return "", nil
	}
	up, err := t.parent(path.Dir(dir), origin)
	if err != nil {
		return "", err
	}
	name := path.Join(up, path.Base(dir))
	e := t.entries[name]
	if e == nil {
		t.entries[name] = &Entry{Path: name, Type: tar.TypeDir, Mode: 0o755, Origin: origin, implied: true,
			layer: len(t.layers) - 1}
		return name, nil
	}
	if e.Type == tar.TypeSymlink {
		e = t.Resolve(name)
		if e == nil {
			// The target may come with a later package: dpkg would follow the link as well.
			return t.parent(linkTarget(name, t.entries[name].Target), origin)
		}
	}
	if e.Type != tar.TypeDir {
		return "", fmt.Errorf("/%s from %s is needed as a folder by %s", name, e.Origin, origin)
	}
	return e.Path, nil
}

func (t *Tree) isDir(name string) bool {
	e := t.Resolve(name)
	return e != nil && e.Type == tar.TypeDir
}

// equal tells whether two entries would look the same in an image, whatever their owners.
func equal(a, b *Entry) bool {
	return a.Type == b.Type && a.Target == b.Target && a.content == b.content
}

// Resolve returns what a path leads to through symbolic links, or nil when there is nothing.
func (t *Tree) Resolve(name string) *Entry {
	const mostLinks = 40
	rest := strings.Split(clean(name), "/")
	at := &Entry{Type: tar.TypeDir}
	for links := 0; len(rest) > 0; {
		next := path.Join(at.Path, rest[0])
		rest = rest[1:]
		at = t.entries[next]
		if at == nil {
			return nil
		}
		if at.Type != tar.TypeSymlink {
			continue
		}
		if links++; links > mostLinks {
			return nil
		}
		target := linkTarget(next, at.Target)
		if target != "" {
			rest = append(strings.Split(target, "/"), rest...)
		}
		at = &Entry{Type: tar.TypeDir}
	}
	return at
}

// linkTarget returns the path that a symbolic link at name points to.
func linkTarget(name, target string) string {
	if path.IsAbs(target) {
		return clean(target)
	}
	return clean(path.Join("/", path.Dir(name), target))
}

// clean turns any spelling of a path inside the image into the key of its entry.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
