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

// fileForm is that of the files of a backup: its key, and for one of an attempt the attempt's folder, and for data the number.
var fileForm = regexp.MustCompile(`^(.+)/(?:manifest\.json|attempt\.json|([0-9a-f]{16})/(?:metadata\.json|data-([0-9]{5,7})))$`)

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

// remove removes a backup, or what is left of one: the manifest, so that it is none any more, then the mark, so that whoever is at it ends.
func (m *Mover) remove(ctx context.Context, key string) (mover.Result, error) {
	for _, name := range []string{mover.ManifestName, mover.MarkName} {
		if err := m.repository.Remove(ctx, key+"/"+name); err != nil {
			return mover.Result{}, err
		}
	}
	if err := m.clearRuns(ctx, key, ""); err != nil {
		return mover.Result{}, err
	}
	return mover.Result{}, m.repository.Clear(ctx, key)
}

// clearRuns removes what attempts have made, but for one.
func (m *Mover) clearRuns(ctx context.Context, key, except string) error {
	// The number of the last part that is whole.
	last := map[string]int{}
	for object, err := range m.repository.Objects(ctx, key) {
		if err != nil {
			return err
		}
		found := fileForm.FindStringSubmatch(object.Name)
		if found == nil || found[1] != key || found[2] == "" || found[2] == except {
			continue
		}
		// Seven digits at most.
		number, _ := strconv.Atoi(found[3])
		last[found[2]] = max(last[found[2]], number)
	}
	for run, number := range last {
		// Only one part of an attempt is under way at a time.
		if err := m.repository.AbandonOf(ctx, key+"/"+partName(run, number+1)); err != nil {
			return err
		}
		if err := m.repository.Clear(ctx, key+"/"+run); err != nil {
			return err
		}
	}
	return nil
}

// list tells which backups there are, and what has no manifest. One that is being made is among the latter. With a catalogue only what that does not
// know is told, and what it says has to be there and is not.
func (m *Mover) list(ctx context.Context, catalogue *mover.Catalogue) (mover.Result, error) {
	found := newFindings(catalogue)
	err := m.eachFolder(ctx, catalogue, found.take)
	return found.told(), err
}

// eachFolder gives the folders of backups, whole ones and those without a manifest, of what a catalogue is of, and how many bytes each has.
func (m *Mover) eachFolder(ctx context.Context, catalogue *mover.Catalogue, take func(key string, whole bool, size int64)) error {
	folder, current, whole, size := "", "", false, int64(0)
	if catalogue != nil {
		folder = catalogue.Folder
	}
	end := func() {
		if current != "" {
			take(current, whole, size)
		}
	}
	for object, err := range m.repository.Objects(ctx, folder) {
		if err != nil {
			return err
		}
		file := fileForm.FindStringSubmatch(object.Name)
		if file == nil {
			continue
		}
		if file[1] != current {
			end()
			current, whole, size = file[1], false, 0
		}
		size += object.Size
		whole = whole || object.Name == current+"/"+mover.ManifestName
	}
	end()
	return nil
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

// take counts a folder, which is a whole backup or what has no manifest.
func (f *findings) take(key string, whole bool, size int64) {
	f.result.KeptBytes += size
	digest := mover.KeyDigest(key)
	_, known := f.others[digest]
	if whole {
		f.result.Count++
		delete(f.absent, digest)
	}
	switch {
	case known:
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
