// SPDX-License-Identifier: Apache-2.0

//go:build linux

package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const mebibyte = 1 << 20

func open(t *testing.T) (*Store, string) {
	t.Helper()
	root := t.TempDir()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return s, root
}

func nothing(*os.File) error { return nil }

func TestIDs(t *testing.T) {
	if got := IDOf("pvc-1"); got != "pvc-1" {
		t.Errorf("a plain name becomes %q", got)
	}
	seen := map[string]string{}
	for _, name := range []string{"a/b", "../x", "A", "a b", strings.Repeat("n", 128), "h.0123", ""} {
		id := IDOf(name)
		if !valid(id) || id != IDOf(name) || seen[id] != "" {
			t.Errorf("%q becomes %q", name, id)
		}
		seen[id] = "taken"
	}
	for _, id := range []string{"", ".", "..", "a/b", "../a", "h.zz", "-a"} {
		if valid(id) {
			t.Errorf("%q is let through to the disk", id)
		}
	}
}

func TestVolumeLives(t *testing.T) {
	s, root := open(t)
	v := Volume{ID: "a", Size: 8 * mebibyte, Snapshot: "n1:s"}
	if err := s.AddVolume(v, func(f *os.File) error { _, err := f.WriteString("hello"); return err }); err != nil {
		t.Fatal(err)
	}
	again, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Volume("a"); err != nil || got != v {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := again.Grow("a", 16*mebibyte); err != nil || got.Size != 16*mebibyte {
		t.Errorf("grown to %+v, %v", got, err)
	}
	if got, err := again.Grow("a", mebibyte); err != nil || got.Size != 16*mebibyte {
		t.Errorf("asked to shrink: %+v, %v", got, err)
	}
	if info, err := os.Stat(again.VolumeImage("a")); err != nil || info.Size() != 16*mebibyte {
		t.Errorf("the file: %v, %v", info, err)
	}
	for range 2 {
		if err := again.RemoveVolume("a"); err != nil {
			t.Error(err)
		}
	}
	if _, err := again.Volume("a"); !errors.Is(err, ErrAbsent) {
		t.Errorf("after its removal: %v", err)
	}
}

func TestNothingHalfMadeIsSeen(t *testing.T) {
	s, root := open(t)
	broken := errors.New("broken")
	err := s.AddVolume(Volume{ID: "a", Size: mebibyte}, func(*os.File) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	err = s.AddVolume(Volume{ID: "b", Size: mebibyte}, func(*os.File) error { return unix.ENOSPC })
	if !errors.Is(err, ErrFull) {
		t.Errorf("a full disk gives %v", err)
	}
	// What a killed driver leaves.
	if err := os.MkdirAll(filepath.Join(root, unfinished, "c-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err = Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if _, err := s.Volume(id); !errors.Is(err, ErrAbsent) {
			t.Errorf("volume %q: %v", id, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, unfinished)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestTooLarge(t *testing.T) {
	s, _ := open(t)
	if err := s.AddVolume(Volume{ID: "a", Size: 1 << 60}, nothing); !errors.Is(err, ErrFull) {
		t.Errorf("a volume of an exbibyte: %v", err)
	}
	if err := s.AddVolume(Volume{ID: "b", Size: mebibyte}, nothing); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Grow("b", 1<<60); !errors.Is(err, ErrFull) || v.Size != mebibyte {
		t.Errorf("grown to an exbibyte: %+v, %v", v, err)
	}
}

// sparse makes a file with two islands of data.
func sparse(t *testing.T, size int64) (*os.File, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "from"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 40 * mebibyte} {
		if _, err := f.WriteAt(bytes.Repeat([]byte("data"), mebibyte/4), offset); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return f, content
}

// checkCopy checks that a copy has the content and the holes.
func checkCopy(t *testing.T, to *os.File, content []byte) {
	t.Helper()
	got, err := os.ReadFile(to.Name())
	if err != nil || !bytes.Equal(got[:len(content)], content) || len(bytes.Trim(got[len(content):], "\x00")) > 0 {
		t.Errorf("the copy differs: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(to.Fd()), &st); err != nil || st.Blocks*512 > 8*mebibyte {
		t.Errorf("the copy takes %d bytes on disk: %v", st.Blocks*512, err)
	}
}

func target(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "to"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCopy(t *testing.T) {
	from, content := sparse(t, 64*mebibyte)
	to := target(t, 80*mebibyte)
	if err := Copy(t.Context(), to, from); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, to, content)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := extents(ctx, from, func(extent) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for the copy any more: %v", err)
	}
}

func TestStream(t *testing.T) {
	from, content := sparse(t, 64*mebibyte)
	var stream bytes.Buffer
	if err := Send(t.Context(), &stream, from); err != nil {
		t.Fatal(err)
	}
	if stream.Len() > 4*mebibyte {
		t.Errorf("holes are sent: %d bytes", stream.Len())
	}
	to := target(t, 64*mebibyte)
	if err := Receive(to, bytes.NewReader(stream.Bytes())); err != nil {
		t.Fatal(err)
	}
	checkCopy(t, to, content)
	for _, end := range []int{0, 7, 16, 1000, stream.Len() - 1, stream.Len() - 16} {
		if err := Receive(target(t, 64*mebibyte), bytes.NewReader(stream.Bytes()[:end])); err == nil {
			t.Errorf("a stream cut after %d bytes is taken for whole", end)
		}
	}
	if err := Receive(target(t, mebibyte), bytes.NewReader(stream.Bytes())); err == nil {
		t.Error("a file takes more than its size")
	}
}
