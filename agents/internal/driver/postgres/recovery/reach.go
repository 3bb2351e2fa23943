// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/zeroinfra/agents/internal/driver/postgres/replication"
	"github.com/zeroinfra/agents/internal/driver/postgres/wal"
	"github.com/zeroinfra/agents/internal/pointintime"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// lookedAt is how many segments, from the last one back, are looked through for a transaction. One that writes more
	// than these 1 GiB hides those before it.
	lookedAt = 64
)

// errNotFound says that the last segments have no end of a transaction, and that there are more before them.
var errNotFound = errors.New("no transaction ended in the last segments")

// Reach is what a recovery has to go by.
type Reach struct {
	Archive *wal.Archive
	Target  mover.Target
	// Programs is the folder of the server's programs, and Work one for what is looked at, a segment at a time.
	Programs, Work string
	Log            *slog.Logger
}

// copied is where a copy of the data begins and was whole; its timeline is 0 where nobody knows.
type copied struct {
	timeline, segment int64
}

func (r *Reach) copied() (copied, error) {
	facts := r.Target.Facts
	if facts["timeline"] == "" || facts["stopLSN"] == "" {
		return copied{}, nil
	}
	timeline, err := strconv.ParseInt(facts["timeline"], 10, 64)
	if err != nil {
		return copied{}, fmt.Errorf("the backup says that its timeline is %q", facts["timeline"])
	}
	end, err := replication.ParseLSN(facts["stopLSN"])
	if err != nil {
		return copied{}, fmt.Errorf("the backup says that it ended at %q", facts["stopLSN"])
	}
	// A position at the beginning of a segment is the end of the one before.
	return copied{timeline, int64(uint64(max(end, 1)-1) / wal.SegmentBytes)}, nil
}

// holds says whether a lineage has the segment in which the backup was whole.
func (r *Reach) holds(ctx context.Context, lineage *wal.Lineage, c copied) (bool, error) {
	t, found := lineage.Timeline(c.timeline)
	if !found {
		return false, nil
	}
	for _, t := range lineage.Timelines[slices.Index(lineage.Timelines, t):] {
		next, err := r.Archive.After(ctx, t, c.segment-1, 1)
		if err != nil || len(next) > 0 && next[0] == c.segment {
			return err == nil, err
		}
		// What a timeline was left in, the next one has from its beginning; the former is not whole and archived by nobody.
		if end, ends := lineage.Ends[t.Number]; !ends || end != c.segment {
			break
		}
	}
	return false, nil
}

// Check refuses a target that cannot be reached. It is an OutOfRange then.
func (r *Reach) Check(ctx context.Context) error {
	t := r.Target
	if t.Time.Before(t.Since) {
		return pointintime.Refused("%s is before %s, when the backup was complete: take an earlier backup",
			pointintime.InWords(t.Time), pointintime.InWords(t.Since))
	}
	lineage, err := r.Archive.LineageOf(ctx, nil)
	if err != nil {
		return err
	}
	c, err := r.copied()
	if err != nil {
		return err
	}
	if c.timeline > 0 {
		if err := r.descends(ctx, lineage, c); err != nil {
			return err
		}
	}
	last, err := r.last(ctx, lineage)
	if errors.Is(err, errNotFound) {
		// Whether one before them ended after the time, the server finds out: it has the last word anyway, and leaves no data
		// where none did.
		r.Log.Info("whether the target can be reached is not known before it is tried: the last segments of the archive "+
			"have no end of a transaction", "segments", lookedAt)
		return nil
	}
	if err != nil {
		return err
	}
	if !last.After(t.Since) {
		return pointintime.Refused("%s cannot be reached: the archive at %s has no transaction after the backup, which "+
			"was complete at %s", pointintime.InWords(t.Time), r.Archive.Store, pointintime.InWords(t.Since))
	}
	if !t.Time.Before(last) {
		return pointintime.Refused("%s cannot be reached: with this backup and the archive at %s it can be from %s to "+
			"before %s, when the last transaction ended that is archived",
			pointintime.InWords(t.Time), r.Archive.Store, pointintime.InWords(t.Since), pointintime.InWords(last))
	}
	r.Log.Info("the target can be reached", "time", pointintime.InWords(t.Time), "since", pointintime.InWords(t.Since),
		"last", pointintime.InWords(last))
	return nil
}

// descends refuses an archive whose latest timeline does not go through the end of the backup.
func (r *Reach) descends(ctx context.Context, lineage *wal.Lineage, c copied) error {
	last := lineage.Timelines[len(lineage.Timelines)-1]
	if _, found := lineage.Timeline(c.timeline); !found {
		return pointintime.Refused("the backup is on timeline %d, and timeline %s, the latest of the archive at %s, does "+
			"not descend from it: take a backup that was made later", c.timeline, last, r.Archive.Store)
	}
	if end, ends := lineage.Ends[c.timeline]; ends && end < c.segment {
		return pointintime.Refused("timeline %d of the backup was left before the backup was complete, and timeline %s "+
			"of the archive at %s goes on from there: take a backup that was made later", c.timeline, last, r.Archive.Store)
	}
	holds, err := r.holds(ctx, lineage, c)
	if err == nil && !holds {
		err = pointintime.Refused("the archive at %s has no %s, with which the backup was complete: nothing that came "+
			"after can be reached", r.Archive.Store, wal.SegmentOf(c.timeline, c.segment).Name)
	}
	return err
}

// last is when the last transaction ended that the archive has of a lineage; zero for none, and errNotFound where that
// was looked for and not up to the end.
func (r *Reach) last(ctx context.Context, lineage *wal.Lineage) (time.Time, error) {
	left := lookedAt
	for _, t := range slices.Backward(lineage.Timelines) {
		numbers, err := r.Archive.After(ctx, t, -1, math.MaxInt)
		if err != nil {
			return time.Time{}, err
		}
		for _, number := range slices.Backward(numbers) {
			if end, ends := lineage.Ends[t.Number]; ends && number > end {
				continue
			}
			if left--; left < 0 {
				return time.Time{}, errNotFound
			}
			at, err := r.lastOf(ctx, t, wal.SegmentOf(t.Number, number))
			if err != nil || !at.IsZero() {
				return at, err
			}
		}
	}
	return time.Time{}, nil
}

// ended is what pg_waldump says of the end of a transaction.
var ended = regexp.MustCompile(`desc: (?:COMMIT|ABORT)(?:_PREPARED [0-9]+:)? ([0-9]{4}-[0-9]{2}-[0-9]{2} ` +
	`[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?) UTC`)

// lastOf is when the last transaction of a segment ended; zero where it has none.
func (r *Reach) lastOf(ctx context.Context, t wal.Timeline, f wal.File) (time.Time, error) {
	path := filepath.Join(r.Work, f.Name)
	if err := r.Archive.Fetch(ctx, t, f, path); err != nil {
		return time.Time{}, fmt.Errorf("%s of the archive at %s: %w", f.Name, r.Archive.Store, err)
	}
	defer os.Remove(path)
	dump := exec.CommandContext(ctx, filepath.Join(r.Programs, "pg_waldump"), "--rmgr=Transaction", path)
	dump.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
	// It ends with an error where the segment does, since it looks for the next one.
	said, err := dump.Output()
	if ctx.Err() != nil {
		return time.Time{}, context.Cause(ctx)
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return time.Time{}, err
	}
	var last time.Time
	for _, found := range ended.FindAllSubmatch(said, -1) {
		at, err := time.Parse("2006-01-02 15:04:05.999999", string(found[1]))
		if err != nil {
			return time.Time{}, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}
