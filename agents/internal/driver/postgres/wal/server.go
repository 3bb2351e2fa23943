// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
)

// Data is the folder of a server's data.
type Data string

func (d Data) path(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// System is the number that initdb gave: what the server's control file begins with.
func (d Data) System() (string, error) {
	file, err := os.Open(d.path("global", "pg_control"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	var system uint64
	if err := binary.Read(file, binary.NativeEndian, &system); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", file.Name(), err)
	}
	return strconv.FormatUint(system, 10), nil
}

// RestoredFile is in data that a restore made of a copy of another server's, and has what tells the two apart.
const RestoredFile = "zeroinfra.restored"

// ArchiveFile is in such data as well, and names the folder of its own that its log has below the place of the archive:
// the former server's may be at that place, whoever names it. Data that an earlier agent restored has none, and
// archives at the place itself.
const ArchiveFile = "zeroinfra.archive"

var restoredForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Identity of the data.
func (d Data) Identity() (Identity, error) {
	system, err := d.System()
	if err != nil {
		return Identity{}, err
	}
	text, err := os.ReadFile(d.path(RestoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{System: system}, nil
	}
	if err != nil {
		return Identity{}, err
	}
	restore := strings.TrimSpace(string(text))
	if !restoredForm.MatchString(restore) {
		return Identity{}, fmt.Errorf("%s has %q, which is none of the numbers that a restore gives", d.path(RestoredFile),
			restore)
	}
	return Identity{system, restore}, nil
}

var placeForm = regexp.MustCompile(`^([0-9]{1,20}|[0-9a-f]{16})?$`)

// IsPlace says whether a text is one that Place gives.
func IsPlace(text string) bool { return placeForm.MatchString(text) }

// Place is where the log is kept below that of the instance: nowhere else, or in a folder of its own. It has one after
// an upgrade to another major version, whose log does not go on from the one before, and where a restore gave it one.
func (d Data) Place() (string, error) {
	text, err := d.optional("zeroinfra.upgrade")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if system, found := strings.CutPrefix(strings.TrimSpace(line), "archive="); found && system != "" {
			if _, err := strconv.ParseUint(system, 10, 64); err != nil {
				return "", fmt.Errorf("%s names the archive %q, which is no number of a system", d.path("zeroinfra.upgrade"),
					system)
			}
			return system, nil
		}
	}
	if text, err = d.optional(ArchiveFile); err != nil {
		return "", err
	}
	place := strings.TrimSpace(text)
	if place != "" && !restoredForm.MatchString(place) {
		return "", fmt.Errorf("%s names the archive %q, which is none of the numbers that a restore gives",
			d.path(ArchiveFile), place)
	}
	return place, nil
}

// optional is what a file has; empty where there is none.
func (d Data) optional(name string) (string, error) {
	text, err := os.ReadFile(d.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return string(text), nil
}

// Terms in which timelines began, as far as the data knows.
func (d Data) Terms() (map[int64]int64, error) {
	text, err := d.optional("zeroinfra.timelines")
	if err != nil {
		return nil, err
	}
	return replication.ParseTerms(text), nil
}

// waiting are the files that the server wants archived, those that it asks for first in front.
func (d Data) waiting() ([]File, error) {
	folder, err := os.Open(d.path("pg_wal", "archive_status"))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		if name, ready := strings.CutSuffix(name, ".ready"); ready {
			if f, err := Parse(name); err == nil {
				files = append(files, f)
			}
		}
	}
	slices.SortFunc(files, func(a, b File) int {
		if (a.Kind == History) != (b.Kind == History) {
			if a.Kind == History {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return files, nil
}

// log are the files that the folder of the log has, in the order of their names.
func (d Data) log() ([]File, error) {
	entries, err := os.ReadDir(d.path("pg_wal"))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, entry := range entries {
		if f, err := Parse(entry.Name()); err == nil {
			files = append(files, f)
		}
	}
	return files, nil
}

// ends says whether the server is stopping or gone: who waits for its archiver then waits for what is archived.
func (d Data) ends() bool {
	file, err := os.Open(d.path("postmaster.pid"))
	if err != nil {
		return true
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for i := 0; lines.Scan(); i++ {
		text := strings.TrimSpace(lines.Text())
		// The first line is its process, the eighth its state.
		if pid, err := strconv.Atoi(text); i == 0 && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		if i == 7 {
			return text == "stopping"
		}
	}
	return false
}
