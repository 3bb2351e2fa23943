// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
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

// branch is a timeline that the server's own goes on from.
type branch struct {
	number int64
	// start is its first segment, and end the one in which it was left, which goes by the name of a partial one and is
	// none of it.
	start, end int64
	// histories and segments of it that the server has.
	histories, segments []File
	// archived are the numbers of the segments that the archive has.
	archived []int64
}

// first segment from which on the server has all.
func (b branch) first() int64 {
	if len(b.segments) > 0 {
		return b.segments[0].Number
	}
	return b.end
}

// branches before the server's own timeline, in their order: those of the newest history that it has. The one that it
// asks for can be older, and wait since it was the primary before.
func (d Data) branches() ([]branch, error) {
	files, err := d.log()
	if err != nil {
		return nil, err
	}
	var newest File
	for _, f := range files {
		if f.Kind == History && f.Timeline > newest.Timeline {
			newest = f
		}
	}
	if newest.Name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(d.path("pg_wal", newest.Name))
	if err != nil {
		return nil, err
	}
	left, err := replication.ParseHistory(string(text))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", d.path("pg_wal", newest.Name), err)
	}
	var all []branch
	start := int64(0)
	for _, l := range left {
		b := branch{number: l.Timeline, start: start, end: int64(uint64(l.End) / SegmentBytes)}
		for _, f := range files {
			switch {
			case f.Timeline != b.number:
			case f.Kind == History:
				b.histories = append(b.histories, f)
			case f.Kind == Segment && f.Number < b.end:
				b.segments = append(b.segments, f)
			}
		}
		all, start = append(all, b), b.end
	}
	return all, nil
}

// Recall has the server archive all that it has of the timelines before its own, when it asks for a history: as long as
// it followed, it took what it got for archived, and those before it may not have come to that. It asks for a history
// before anything else, and nothing of what it has is gone by then; but its next checkpoint removes what it takes for
// archived. So this comes before all that needs the store, which may be away for longer.
func (d Data) Recall(name string) error {
	f, err := Parse(name)
	if err != nil || f.Kind != History {
		return err
	}
	branches, err := d.branches()
	if err != nil {
		return err
	}
	for _, b := range branches {
		for _, f := range slices.Concat(b.histories, b.segments) {
			if err := d.wantArchived(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// review has the server take for archived what the archive has of what was recalled, but for the file that it asks for,
// and says what neither has.
func (a *Archiver) review(ctx context.Context, asked File, terms map[int64]int64, state *State) error {
	branches, err := a.Data.branches()
	if err != nil || len(branches) == 0 {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	timelines, err := a.look(asking, branches, terms)
	if err != nil {
		// All of them stay recalled then: what is there already does no harm.
		a.Log.Warn("cannot see what the archive has of the timelines before: all that is here is archived", "problem",
			err.Error())
		return nil
	}
	for _, b := range branches {
		for _, f := range slices.Concat(b.histories, b.segments) {
			there := slices.Contains(b.archived, f.Number)
			if f.Kind == History {
				there = slices.Contains(timelines, Timeline{f.Timeline, terms[f.Timeline]})
			}
			if !there || f == asked {
				continue
			}
			if err := a.Data.takeForArchived(f); err != nil {
				return err
			}
		}
	}
	a.findGap(branches, state)
	return nil
}

// look notes what the archive has of the branches, and returns the timelines of which it has a history.
func (a *Archiver) look(ctx context.Context, branches []branch, terms map[int64]int64) ([]Timeline, error) {
	from := branches[len(branches)-1].end
	for _, b := range branches {
		if len(b.segments) > 0 {
			from = min(from, b.first())
		}
	}
	from = max(0, from-recallSegments)
	for i := range branches {
		b := &branches[i]
		// What was left longer ago than that is as it is.
		if b.end <= from {
			continue
		}
		var err error
		if b.archived, err = a.Archive.After(ctx, Timeline{b.number, terms[b.number]}, from-1, 4*recallSegments); err != nil {
			return nil, err
		}
	}
	return a.Archive.Timelines(ctx)
}

// findGap says what neither the archive nor the server has.
func (a *Archiver) findGap(branches []branch, state *State) {
	var gaps []string
	begun := false
	for _, b := range branches {
		first, last := b.first(), int64(-1)
		if begun {
			last = b.start - 1
		}
		for _, number := range b.archived {
			if number < first {
				last = number
			}
		}
		// An archive that has nothing up to here was made later.
		if last >= 0 && last < first-1 {
			gaps = append(gaps, SegmentOf(b.number, last+1).Name+" to "+SegmentOf(b.number, first-1).Name)
		}
		begun = begun || len(b.archived) > 0
	}
	if len(gaps) == 0 {
		return
	}
	state.Gap = oneLine(fmt.Sprintf("segments %s were never archived by the primary before, and this server has them no "+
		"more", strings.Join(gaps, ", ")))
	a.Log.Error("the archive has a gap: nothing after it can be restored from what was copied before it; copy all data "+
		"anew", "gap", state.Gap)
}

// wantArchived has the server archive a file that it takes for archived.
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

// takeForArchived has the server not archive a file.
func (d Data) takeForArchived(f File) error {
	err := os.Rename(d.path("pg_wal", "archive_status", f.Name+".ready"),
		d.path("pg_wal", "archive_status", f.Name+".done"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
