// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// PutMergedUsr adds the links of a merged /usr, through which the files of
// packages that still use the old places find their new ones.
func (t *Tree) PutMergedUsr() error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := t.PutDir(Entry{Path: "usr/" + name, Mode: 0o755, Origin: "the merged /usr"}); err != nil {
			return err
		}
		if err := t.PutSymlink(Entry{Path: name, Target: "usr/" + name, Origin: "the merged /usr"}); err != nil {
			return err
		}
	}
	return nil
}

// PutDeb adds the files of a Debian package as dpkg-deb streams them, with the
// owners and modes recorded in it. Maintainer scripts are not run.
func (t *Tree) PutDeb(ctx context.Context, name, file string) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start dpkg-deb (package dpkg): %w", err)
	}
	err = t.PutTar("package "+name, stream)
	if err == nil {
		// dpkg-deb pads its stream after the end that a tar reader sees.
		_, err = io.Copy(io.Discard, stream)
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
	}
	if wait := cmd.Wait(); wait != nil && err == nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", wait, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return fmt.Errorf("cannot read package %q: %w", name, err)
	}
	return nil
}

// PutTar adds every entry of a tar stream; origin says where it comes from.
func (t *Tree) PutTar(origin string, stream io.Reader) error {
	reader := tar.NewReader(stream)
	for {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e := Entry{Path: h.Name, Mode: h.Mode & 0o7777, UID: h.Uid, GID: h.Gid, Origin: origin}
		switch h.Typeflag {
		case tar.TypeDir:
			err = t.PutDir(e)
		case tar.TypeReg:
			err = t.PutFile(e, reader)
		case tar.TypeSymlink:
			e.Target = h.Linkname
			err = t.PutSymlink(e)
		case tar.TypeLink:
			err = t.putHardLink(e, h.Linkname)
		default:
			err = fmt.Errorf("%q has type %q, which images cannot hold", h.Name, h.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

// PutHostFile adds a file of this machine, such as a binary that was just built.
func (t *Tree) PutHostFile(e Entry, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.PutFile(e, f)
}
