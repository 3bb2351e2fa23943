// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// notesFolder, in the folder of the notes, has a file for each one that was kept before the server asked for it.
const notesFolder = "archived"

// kept is what was kept, and where.
type kept struct {
	Claim string `json:"claim"`
	Sum   Sum    `json:"sum"`
}

// noteKept notes a file. Without the note it is compared with the store's once more, and that is all.
func (a *Archiver) noteKept(whose Identity, f File, sum Sum) {
	err := os.MkdirAll(filepath.Join(a.Notes, notesFolder), 0o700)
	if err == nil {
		err = a.write(filepath.Join(notesFolder, f.Name), kept{a.claim(whose), sum})
	}
	if err != nil {
		a.Log.Warn("cannot note what is archived", "file", f.Name, "problem", err.Error())
	}
}

// isNoted says whether a file is in the store as it is here.
func (a *Archiver) isNoted(whose Identity, f File) (bool, error) {
	text, err := os.ReadFile(filepath.Join(a.Notes, notesFolder, f.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var k kept
	if err != nil || json.Unmarshal(text, &k) != nil || k.Claim != a.claim(whose) {
		return false, nil
	}
	file, err := os.Open(a.Data.path("pg_wal", f.Name))
	if err != nil {
		return false, err
	}
	defer file.Close()
	sum, err := SumOf(file)
	return err == nil && sum.same(k.Sum), err
}

// forget removes notes of files that the server asks for no more, and returns the others.
func (a *Archiver) forget(waiting []File) []string {
	entries, err := os.ReadDir(filepath.Join(a.Notes, notesFolder))
	if err != nil {
		return nil
	}
	var noted []string
	for _, entry := range entries {
		if slices.ContainsFunc(waiting, func(f File) bool { return f.Name == entry.Name() }) {
			noted = append(noted, entry.Name())
			continue
		}
		_ = os.Remove(filepath.Join(a.Notes, notesFolder, entry.Name()))
	}
	return noted
}
