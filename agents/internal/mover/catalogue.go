// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
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

// list tells which backups there are, and what has no manifest. One that is being made is among the latter.
func (m *Mover) list(ctx context.Context) (mover.Result, error) {
	var result mover.Result
	current, whole := "", false
	end := func() {
		switch {
		case current == "":
		case whole:
			result.Count++
			result.Backups = append(result.Backups, current)
		default:
			result.Leftovers = append(result.Leftovers, current)
		}
		result.Backups, result.Leftovers = result.Backups[:min(len(result.Backups), maxTold)], result.Leftovers[:min(len(result.Leftovers), maxTold)]
	}
	for object, err := range m.repository.Objects(ctx, "") {
		if err != nil {
			return mover.Result{}, err
		}
		found := fileForm.FindStringSubmatch(object.Name)
		if found == nil {
			continue
		}
		if found[1] != current {
			end()
			current, whole = found[1], false
		}
		whole = whole || object.Name == current+"/"+mover.ManifestName
	}
	end()
	slices.Sort(result.Backups)
	slices.Sort(result.Leftovers)
	return result, nil
}
