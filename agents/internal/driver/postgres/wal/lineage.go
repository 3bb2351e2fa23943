// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
	"github.com/zeroinfra/agents/internal/store"
)

// Lineage is a timeline and those that it goes on from: what a recovery replays.
type Lineage struct {
	// Timelines by number, with their terms.
	Timelines []Timeline `json:"timelines"`
	// Ends are the segments in which a timeline was left for the next one.
	Ends map[int64]int64 `json:"ends,omitempty"`
}

// Timeline returns the one of a number, and whether the lineage goes through it.
func (l *Lineage) Timeline(number int64) (Timeline, bool) {
	for _, t := range l.Timelines {
		if t.Number == number {
			return t, true
		}
	}
	return Timeline{}, false
}

// end is the segment in which a timeline was left.
func (l *Lineage) end(number int64) (segment int64, ends bool) {
	segment, ends = l.Ends[number]
	return segment, ends
}

// LineageOf a timeline; of the latest that the archive has where none is named. That is the one that began in the
// highest term: of two that two servers gave one number, the later one is what went on.
func (a *Archive) LineageOf(ctx context.Context, named *Timeline) (*Lineage, error) {
	all, err := a.Timelines(ctx)
	if err != nil {
		return nil, err
	}
	last := Timeline{Number: 1}
	for _, t := range all {
		if t.Term > last.Term || t.Term == last.Term && t.Number > last.Number {
			last = t
		}
	}
	if named != nil {
		last = *named
	}
	if last.Number == 1 {
		return &Lineage{Timelines: []Timeline{last}}, nil
	}
	f := File{Name: fmt.Sprintf("%08X.history", last.Number), Kind: History, Timeline: last.Number}
	packed, err := a.Store.Open(ctx, object(last, f))
	if errors.Is(err, store.ErrAbsent) {
		return nil, store.Refused{Why: fmt.Sprintf("the archive at %s has no history of timeline %s", a.Store, last)}
	}
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	var text bytes.Buffer
	sum, err := unpack(packed, &text)
	if err != nil {
		return nil, fmt.Errorf("the history of timeline %s in the archive at %s: %w", last, a.Store, err)
	}
	branches, err := replication.ParseHistory(text.String())
	if err != nil {
		return nil, err
	}
	l := &Lineage{Ends: map[int64]int64{}}
	for _, branch := range branches {
		l.Timelines = append(l.Timelines, Timeline{branch.Timeline, sum.Terms[branch.Timeline]})
		l.Ends[branch.Timeline] = int64(uint64(branch.End) / SegmentBytes)
	}
	l.Timelines = append(l.Timelines, last)
	return l, nil
}

// Kept is the lineage that a file has, or the one of find, which it has from then on: a recovery goes by one from its
// beginning to its end.
func Kept(path string, find func() (*Lineage, error)) (*Lineage, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		var l Lineage
		if err := json.Unmarshal(text, &l); err != nil || len(l.Timelines) == 0 {
			return nil, fmt.Errorf("%s does not say what is restored: remove it to begin anew", path)
		}
		return &l, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := find()
	if err != nil {
		return nil, err
	}
	if text, err = json.Marshal(l); err != nil {
		return nil, err
	}
	return l, atomicfile.Write(path, text, 0o600)
}
