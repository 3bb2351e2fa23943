// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package store keeps volumes and snapshots as sparse files in a folder. What
// is half made is never seen: it is made aside, moved into place at once, and
// swept away by the next Open.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// ErrAbsent says that there is no such volume or snapshot.
var ErrAbsent = errors.New("not found")

// ErrFull says that the disk below the folder has no room.
var ErrFull = errors.New("no room")

// Volume is what is known of a volume.
type Volume struct {
	// ID names the volume in this store.
	ID string `json:"id"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Snapshot is the handle of the snapshot that it began as, if any.
	Snapshot string `json:"snapshot,omitempty"`
}

// Snapshot is what is known of a snapshot.
type Snapshot struct {
	// ID names the snapshot in this store.
	ID string `json:"id"`
	// Volume is the ID of the volume that it shows.
	Volume string `json:"volume"`
	// Size is that of the volume at that time, in bytes.
	Size int64 `json:"size"`
	// Created is the time that it shows.
	Created time.Time `json:"created"`
}

// The folders of a store, and the files in each entry.
const (
	volumes    = "volumes"
	snapshots  = "snapshots"
	unfinished = "unfinished"
	image      = "disk.img"
	record     = "record.json"
)

// Store is a folder of volumes and snapshots.
type Store struct{ root string }

// Open opens a store, making its folders and sweeping what was left half made.
func Open(root string) (*Store, error) {
	if err := os.RemoveAll(filepath.Join(root, unfinished)); err != nil {
		return nil, fmt.Errorf("cannot sweep store %q: %w", root, err)
	}
	for _, dir := range []string{volumes, snapshots, unfinished} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			return nil, fmt.Errorf("cannot open store %q: %w", root, err)
		}
	}
	return &Store{root: root}, nil
}

var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// IDOf returns the ID of what is created under a name. It is the same every
// time, so a name that is asked for again finds what it made.
func IDOf(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	// No plain name has a dot.
	return "h." + hex.EncodeToString(sum[:16])
}

// valid tells whether an ID can be one of ours; others never reach a path.
func valid(id string) bool {
	hashed := len(id) == 34 && id[:2] == "h." && plainName.MatchString(id[2:])
	return plainName.MatchString(id) || hashed
}

// Volume reads a volume's record.
func (s *Store) Volume(id string) (Volume, error) {
	var v Volume
	return v, s.read(volumes, id, &v)
}

// Snapshot reads a snapshot's record.
func (s *Store) Snapshot(id string) (Snapshot, error) {
	var v Snapshot
	return v, s.read(snapshots, id, &v)
}

// Snapshots lists all snapshots.
func (s *Store) Snapshots() ([]Snapshot, error) {
	entries, err := os.ReadDir(filepath.Join(s.root, snapshots))
	if err != nil {
		return nil, fmt.Errorf("cannot list snapshots: %w", err)
	}
	var all []Snapshot
	for _, e := range entries {
		v, err := s.Snapshot(e.Name())
		if errors.Is(err, ErrAbsent) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// VolumeImage is the file that holds a volume.
func (s *Store) VolumeImage(id string) string { return filepath.Join(s.root, volumes, id, image) }

// SnapshotImage is the file that holds a snapshot.
func (s *Store) SnapshotImage(id string) string {
	return filepath.Join(s.root, snapshots, id, image)
}

// AddVolume makes a volume's file, of its size and all zero, lets fill write
// to it, and keeps both.
func (s *Store) AddVolume(v Volume, fill func(file *os.File) error) error {
	return s.add(volumes, v.ID, v.Size, v, fill)
}

// AddSnapshot makes a snapshot's file and keeps it, as AddVolume does.
func (s *Store) AddSnapshot(v Snapshot, fill func(file *os.File) error) error {
	return s.add(snapshots, v.ID, v.Size, v, fill)
}

// Grow makes a volume's file larger. One that is as large already is left.
func (s *Store) Grow(id string, size int64) (Volume, error) {
	v, err := s.Volume(id)
	if err != nil || v.Size >= size {
		return v, err
	}
	if err := s.room(size - v.Size); err != nil {
		return v, err
	}
	if err := os.Truncate(s.VolumeImage(id), size); err != nil {
		return v, fmt.Errorf("cannot grow volume %q: %w", id, err)
	}
	v.Size = size
	return v, s.write(filepath.Join(s.root, volumes, id), v)
}

// RemoveVolume removes a volume; one that is not there is fine.
func (s *Store) RemoveVolume(id string) error { return s.remove(volumes, id) }

// RemoveSnapshot removes a snapshot; one that is not there is fine.
func (s *Store) RemoveSnapshot(id string) error { return s.remove(snapshots, id) }

// Free is the room on the disk below the store, in bytes.
func (s *Store) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return 0, fmt.Errorf("cannot look at the disk of store %q: %w", s.root, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// room refuses what cannot fit even when all that is promised to others stays
// unused. Files are sparse: together volumes may promise more than there is.
func (s *Store) room(size int64) error {
	free, err := s.Free()
	if err == nil && size > free {
		err = fmt.Errorf("%w: %d bytes are asked for and %d are free in %q", ErrFull, size, free, s.root)
	}
	return err
}

func (s *Store) read(kind, id string, into any) error {
	if !valid(id) {
		return fmt.Errorf("%q in %s: %w", id, kind, ErrAbsent)
	}
	data, err := os.ReadFile(filepath.Join(s.root, kind, id, record))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q in %s: %w", id, kind, ErrAbsent)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("cannot read the record of %q in %s: %w", id, kind, err)
	}
	return nil
}

// write replaces the record of an entry at once.
func (s *Store) write(dir string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	aside := filepath.Join(dir, record+".new")
	if err := os.WriteFile(aside, data, 0o600); err != nil {
		return fmt.Errorf("cannot write a record: %w", err)
	}
	return os.Rename(aside, filepath.Join(dir, record))
}

func (s *Store) add(kind, id string, size int64, v any, fill func(*os.File) error) error {
	if !valid(id) {
		return fmt.Errorf("cannot keep %q in %s: the name cannot be a file's", id, kind)
	}
	if err := s.room(size); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Join(s.root, unfinished), id+"-")
	if err != nil {
		return fmt.Errorf("cannot make room for %q: %w", id, err)
	}
	defer os.RemoveAll(dir)
	file, err := os.OpenFile(filepath.Join(dir, image), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot make the file of %q: %w", id, err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return fmt.Errorf("cannot size the file of %q: %w", id, err)
	}
	if err := fill(file); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return err
	}
	if err := s.write(dir, v); err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(s.root, kind, id)); err != nil {
		return fmt.Errorf("cannot keep %q: %w", id, err)
	}
	return nil
}

// remove takes an entry out of sight at once, then frees its room.
func (s *Store) remove(kind, id string) error {
	if !valid(id) {
		return nil
	}
	aside, err := os.MkdirTemp(filepath.Join(s.root, unfinished), id+"-")
	if err != nil {
		return fmt.Errorf("cannot remove %q: %w", id, err)
	}
	defer os.RemoveAll(aside)
	err = os.Rename(filepath.Join(s.root, kind, id), filepath.Join(aside, id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove %q: %w", id, err)
	}
	return nil
}
