// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// checkSize is how many bytes are written to try a repository.
	checkSize = 4096
	// maxTold is how many keys of each kind are kept for the result, of which a few dozen fit.
	maxTold = 200
	// maxMissing is how many of those that are not there are told; they take less than half of a result.
	maxMissing = 100
)

// fileForm is that of the files of a backup: its key, and for one of an attempt the attempt's folder, and for data and
// packs the number.
var fileForm = regexp.MustCompile(
	`^(.+)/(?:manifest\.json|attempt\.json|([0-9a-f]{16})/(?:metadata\.json|data-([0-9]{5,7})|pack-([0-9]{5,7})))$`)

// resticForm is that of the files of a repository of restic, and its folder.
var resticForm = regexp.MustCompile(`^(.+/` + mover.FilesFolder + `|.+/` + mover.FilesFolderEncrypted + `)/`)

// check tries a repository.
func (m *Mover) check(ctx context.Context) (mover.Result, error) {
	content := make([]byte, checkSize)
	// It never fails.
	_, _ = rand.Read(content)
	name := "zeroinfra-check-" + hex.EncodeToString(content[:8])
	if err := m.repository.Put(ctx, name, bytes.NewReader(content), checkSize); err != nil {
		return mover.Result{}, fmt.Errorf("cannot write: %w", err)
	}
	got, err := m.repository.ReadRange(ctx, name, 0, checkSize)
	if err != nil {
		return mover.Result{}, fmt.Errorf("cannot read what was written: %w", err)
	}
	if !bytes.Equal(got, content) {
		return mover.Result{}, damaged("the repository gives back something else than was written")
	}
	if err := m.repository.Remove(ctx, name); err != nil {
		return mover.Result{}, fmt.Errorf("cannot delete: %w", err)
	}
	free, err := m.repository.Free(ctx)
	return mover.Result{FreeBytes: free}, err
}

// remove removes a backup, or what is left of one: the manifest, so that it is none any more, then the mark, so that
// whoever is at it ends.
func (m *Mover) remove(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	key := plan.Backup.Key
	for _, name := range []string{mover.ManifestName, mover.MarkName} {
		if err := m.repository.Remove(ctx, key+"/"+name); err != nil {
			return mover.Result{}, err
		}
	}
	if plan.Files != nil {
		if err := m.removeFiles(ctx, key); err != nil {
			return mover.Result{}, err
		}
	}
	shares, err := m.shares(ctx, key)
	if err == nil && shares {
		return mover.Result{}, m.removeSharing(ctx, key)
	}
	if err != nil {
		return mover.Result{}, err
	}
	if err := m.clearRuns(ctx, key, "", removePacks); err != nil {
		return mover.Result{}, err
	}
	return mover.Result{}, m.repository.Clear(ctx, key)
}

// packsOf says what becomes of the packs of an attempt.
type packsOf int

const (
	// removePacks: nobody names them.
	removePacks packsOf = iota + 1
	// keepPacks: others may.
	keepPacks
)

// clearRuns removes what attempts have made, but for one.
func (m *Mover) clearRuns(ctx context.Context, key, except string, packs packsOf) error {
	runs := map[string]*leftRun{}
	for object, err := range m.repository.Objects(ctx, key) {
		if err != nil {
			return err
		}
		found := fileForm.FindStringSubmatch(object.Name)
		if found == nil || found[1] != key || found[2] == "" || found[2] == except {
			continue
		}
		run := runs[found[2]]
		if run == nil {
			run = &leftRun{packs: map[int]bool{}}
			runs[found[2]] = run
		}
		run.note(object.Name, found[3], found[4])
	}
	for name, run := range runs {
		if err := m.abandonOf(ctx, key, name, run); err != nil {
			return err
		}
		if packs == removePacks || len(run.packs) == 0 {
			if err := m.repository.Clear(ctx, key+"/"+name); err != nil {
				return err
			}
			continue
		}
		for _, file := range run.others {
			if err := m.repository.Remove(ctx, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftRun is what is there of an attempt.
type leftRun struct {
	// last is the number of the last part that is whole, and packs are those that are.
	last  int
	packs map[int]bool
	// others are the files beside packs.
	others []string
}

func (r *leftRun) note(name, part, pack string) {
	// Seven digits at most.
	if number, _ := strconv.Atoi(pack); pack != "" {
		r.packs[number] = true
		return
	}
	number, _ := strconv.Atoi(part)
	r.last, r.others = max(r.last, number), append(r.others, name)
}

// abandonOf gives the room back of what is not whole. Only one part of an attempt is under way at a time, and as many
// packs as there are workers.
func (m *Mover) abandonOf(ctx context.Context, key, run string, left *leftRun) error {
	if err := m.repository.AbandonOf(ctx, key+"/"+partName(run, left.last+1)); err != nil {
		return err
	}
	for number, open := 1, 0; open < packers; number++ {
		if left.packs[number] {
			continue
		}
		open++
		if err := m.repository.AbandonOf(ctx, key+"/"+packName(run, number)); err != nil {
			return err
		}
	}
	return nil
}

// list tells which backups there are, and what has no manifest. One that is being made is among the latter. With a
// catalogue only what that does not know is told, and what it says has to be there and is not.
func (m *Mover) list(ctx context.Context, catalogue *mover.Catalogue) (mover.Result, error) {
	found := newFindings(catalogue)
	err := m.eachFolder(ctx, catalogue, found.take)
	return found.told(), err
}

// folderKind is what a folder is.
type folderKind int

const (
	// wholeBackup has a manifest.
	wholeBackup folderKind = iota + 1
	// unfinished has none: it is what an attempt left, or is at.
	unfinished
	// shared is what backups of others need, or several: packs, all that is left of one that was deleted, and the files
	// that restic keeps for an instance.
	shared
)

// eachFolder gives the folders of backups, of what a catalogue is of, and how many bytes each has.
func (m *Mover) eachFolder(ctx context.Context, catalogue *mover.Catalogue,
	take func(key string, kind folderKind, size int64)) error {
	folder, current, kind, size := "", "", shared, int64(0)
	if catalogue != nil {
		folder = catalogue.Folder
	}
	end := func() {
		if current != "" {
			take(current, kind, size)
		}
	}
	for object, err := range m.repository.Objects(ctx, folder) {
		if err != nil {
			return err
		}
		of, is := folderOf(object.Name)
		if of == "" {
			continue
		}
		if of != current {
			end()
			current, kind, size = of, shared, 0
		}
		size += object.Size
		if is == wholeBackup || kind == shared {
			kind = is
		}
	}
	end()
	return nil
}

// folderOf is the folder that a file is of, if it is of a backup or of restic, and what it makes that by itself.
func folderOf(file string) (folder string, is folderKind) {
	if restic := resticForm.FindStringSubmatch(file); restic != nil {
		return restic[1], shared
	}
	found := fileForm.FindStringSubmatch(file)
	switch {
	case found == nil:
		return "", 0
	case file == found[1]+"/"+mover.ManifestName:
		return found[1], wholeBackup
	case found[4] != "":
		return found[1], shared
	}
	return found[1], unfinished
}

// findings are what a list comes to.
type findings struct {
	result mover.Result
	// absent are those that have to be there and were not found so far, and others what may be there.
	absent, others map[string]struct{}
}

func newFindings(catalogue *mover.Catalogue) *findings {
	f := &findings{absent: map[string]struct{}{}, others: map[string]struct{}{}}
	if catalogue == nil {
		return f
	}
	for _, digest := range catalogue.Whole {
		f.absent[digest], f.others[digest] = struct{}{}, struct{}{}
	}
	for _, digest := range catalogue.Others {
		f.others[digest] = struct{}{}
	}
	return f
}

// take counts a folder.
func (f *findings) take(key string, kind folderKind, size int64) {
	f.result.KeptBytes += size
	whole := kind == wholeBackup
	digest := mover.KeyDigest(key)
	_, known := f.others[digest]
	if whole {
		f.result.Count++
		delete(f.absent, digest)
	}
	switch {
	case known, kind == shared:
	case whole:
		f.result.Unknown++
		f.result.Backups = first(f.result.Backups, key)
	default:
		f.result.Unfinished++
		f.result.Leftovers = first(f.result.Leftovers, key)
	}
}

// first keeps as many keys as may be told.
func first(keys []string, key string) []string {
	if len(keys) < maxTold {
		return append(keys, key)
	}
	return keys
}

func (f *findings) told() mover.Result {
	slices.Sort(f.result.Backups)
	slices.Sort(f.result.Leftovers)
	missing := slices.Sorted(maps.Keys(f.absent))
	f.result.Lost, f.result.Missing = len(missing), missing[:min(len(missing), maxMissing)]
	return f.result
}
