// SPDX-License-Identifier: Apache-2.0

//go:build linux

package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// extent is a part of a file that is not a hole.
type extent struct{ Offset, Length int64 }

// last ends a stream of extents, so that one cut short is known for it.
var last = extent{Offset: -1}

// chunk is the most that is copied without looking whether to go on.
const chunk = 16 << 20

// extents calls f for every part of a file that holds data.
func extents(ctx context.Context, file *os.File, f func(extent) error) error {
	for offset := int64(0); ; {
		start, err := file.Seek(offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // holes to the end
		}
		if err != nil {
			return fmt.Errorf("cannot look for data in %q: %w", file.Name(), err)
		}
		end, err := file.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("cannot look for holes in %q: %w", file.Name(), err)
		}
		for offset = start; offset < end; {
			if err := ctx.Err(); err != nil {
				return err
			}
			e := extent{offset, min(chunk, end-offset)}
			if _, err := file.Seek(offset, io.SeekStart); err != nil {
				return err
			}
			if err := f(e); err != nil {
				return err
			}
			offset += e.Length
		}
	}
}

// Copy copies what a file holds into another, holes left out. File systems
// that can share blocks do that instead.
func Copy(ctx context.Context, to, from *os.File) error {
	info, err := to.Stat()
	if err != nil {
		return err
	}
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err == nil {
		return to.Truncate(info.Size())
	}
	return extents(ctx, from, func(e extent) error {
		if _, err := to.Seek(e.Offset, io.SeekStart); err != nil {
			return err
		}
		_, err := io.CopyN(to, from, e.Length)
		return err
	})
}

// Send writes what a file holds as a stream of extents.
func Send(ctx context.Context, to io.Writer, from *os.File) error {
	err := extents(ctx, from, func(e extent) error {
		if err := binary.Write(to, binary.BigEndian, e); err != nil {
			return err
		}
		_, err := io.CopyN(to, from, e.Length)
		return err
	})
	if err != nil {
		return err
	}
	return binary.Write(to, binary.BigEndian, last)
}

// Receive writes a stream of extents into a file that is large enough.
func Receive(to *os.File, from io.Reader) error {
	info, err := to.Stat()
	if err != nil {
		return err
	}
	for {
		var e extent
		if err := binary.Read(from, binary.BigEndian, &e); err != nil {
			return fmt.Errorf("the stream ends early: %w", err)
		}
		if e == last {
			return nil
		}
		if e.Offset < 0 || e.Length < 0 || e.Length > info.Size()-e.Offset {
			return fmt.Errorf("the stream holds bytes %d to %d of a file of %d", e.Offset, e.Offset+e.Length, info.Size())
		}
		if _, err := to.Seek(e.Offset, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, e.Length); err != nil {
			return fmt.Errorf("the stream ends early: %w", err)
		}
	}
}
