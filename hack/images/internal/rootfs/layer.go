// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"archive/tar"
	"fmt"
	"io"
	"time"
)

// LayerNotes returns the notes of the layers that hold anything, by layer number.
func (t *Tree) LayerNotes() map[int]string {
	notes := map[int]string{}
	for _, e := range t.entries {
		notes[e.layer] = t.layers[e.layer]
	}
	return notes
}

// WriteLayer writes the entries of one layer as a tar stream: sorted by path, all
// with the same time, with numeric owners only. The same entries give the same bytes.
// Files that are the same in everything but the name are stored once, as hard links.
func (t *Tree) WriteLayer(w io.Writer, layer int, epoch time.Time) error {
	out := tar.NewWriter(w)
	type inode struct {
		content  *content
		mode     int64
		uid, gid int
	}
	written := map[inode]string{}
	for _, name := range t.Paths() {
		e := t.entries[name]
		if e.layer != layer {
			continue
		}
		h := &tar.Header{
			Typeflag: e.Type, Name: name, Linkname: e.Target, Mode: e.Mode,
			Uid: e.UID, Gid: e.GID, ModTime: epoch,
		}
		node := inode{e.content, e.Mode, e.UID, e.GID}
		var data io.Reader
		switch {
		case e.Type == tar.TypeDir:
			h.Name += "/"
		case e.Type == tar.TypeReg && e.content.size > 0 && written[node] != "":
			h.Typeflag, h.Linkname = tar.TypeLink, written[node]
		case e.Type == tar.TypeReg:
			h.Size, data = e.content.size, t.Open(e)
			written[node] = name
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("cannot write %q: %w", name, err)
		}
		if data == nil {
			continue
		}
		if _, err := io.Copy(out, data); err != nil {
			return fmt.Errorf("cannot write %q: %w", name, err)
		}
	}
	return out.Close()
}
