// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
)

const (
	// recallTime bounds what is asked of the store before a server that was promoted keeps what it has.
	recallTime = 5 * time.Second
	// recallSegments before the first that the server has are looked at for the last one that the archive has.
	recallSegments = 4096
)

// recall has the server archive what the one before did not come to: as long as it followed, it took all that it got for archived. It asks
// for the history of its timeline before anything else, and nothing of what it has is gone by then.
func (a *Archiver) recall(ctx context.Context, f File, terms map[int64]int64, state *State) error {
	text, err := os.ReadFile(a.Data.path("pg_wal", f.Name))
	if err != nil {
		return err
	}
	branches, err := replication.ParseHistory(string(text))
	if err != nil || len(branches) == 0 {
		return err
	}
	parent := branches[len(branches)-1]
	files, err := a.Data.segments(parent.Timeline)
	if err != nil {
		return err
	}
	// The one that it left in the middle goes by the name of a partial one.
	files = slices.DeleteFunc(files, func(f File) bool { return uint64(f.Number+1)*SegmentBytes > uint64(parent.End) })
	first := int64(uint64(parent.End) / SegmentBytes)
	if len(files) > 0 {
		first = files[0].Number
	}
	asking, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	has, err := a.Archive.After(asking, Timeline{parent.Timeline, terms[parent.Timeline]}, max(0, first-recallSegments)-1, 4*recallSegments)
	if err != nil {
		// All of them then: what is there already does no harm.
		a.Log.Warn("cannot see what the archive has of the timeline before: all that is here is archived", "problem", err.Error())
	}
	for _, f := range files {
		if !slices.Contains(has, f.Number) {
			if err := a.Data.wantArchived(f); err != nil {
				return err
			}
		}
	}
	if err == nil {
		a.findGap(parent.Timeline, first, has, state)
	}
	return nil
}

// findGap says what neither the archive nor the server has.
func (a *Archiver) findGap(timeline, first int64, has []int64, state *State) {
	last := int64(-1)
	for _, number := range has {
		if number < first {
			last = number
		}
	}
	// An archive that has nothing of the timeline was made later.
	if last < 0 || last == first-1 {
		return
	}
	state.Gap = fmt.Sprintf("segments %s to %s were never archived by the primary before, and this server has them no more", SegmentOf(timeline, last+1).Name, SegmentOf(timeline, first-1).Name)
	a.Log.Error("the archive has a gap: nothing after it can be restored from what was copied before it; copy all data anew", "gap", state.Gap)
}

// wantArchived has the server archive a segment that it takes for archived.
func (d Data) wantArchived(f File) error {
	done, ready := d.path("pg_wal", "archive_status", f.Name+".done"), d.path("pg_wal", "archive_status", f.Name+".ready")
	err := os.Rename(done, ready)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(ready); err == nil {
		return nil
	}
	return atomicfile.Write(ready, nil, 0o600)
}
