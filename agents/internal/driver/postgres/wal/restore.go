// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

// ErrEnd says that the archive has no such file, and need not have one: the log ends there, or the timeline does not
// exist.
var ErrEnd = errors.New("the archive does not have it")

const (
	// nearEnd segments of an archive may come in another order than theirs.
	nearEnd = 16
	// defaultSettling is that of a Restorer that says none.
	defaultSettling = 3 * time.Second
)

// Restorer gives a server that recovers the files of an archive.
type Restorer struct {
	Archive *Archive
	// Lineage is what is restored.
	Lineage *Lineage
	// Cache is a folder for what is fetched before it is asked for, on the volume of the log; empty for none. It can go at
	// any time.
	Cache string
	// Parallel files are fetched at once. Each takes up to 8 MiB of memory.
	Parallel int
	// Patience with a store that does not answer.
	Patience time.Duration
	// Settling is how long a file is waited for that others came before. Default 3 s.
	Settling time.Duration
	Log      *slog.Logger
}

// Restore writes a file to a path. ErrEnd is for the server to take for the end; any other error must end its recovery.
func (r *Restorer) Restore(ctx context.Context, name, path string) error {
	f, err := Parse(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Patience,
		fmt.Errorf("%s does not answer within %s", r.Archive.Store, r.Patience))
	defer cancel()
	if r.fromCache(f, path) {
		return nil
	}
	t, known := r.Lineage.Timeline(f.Timeline)
	if !known {
		return ErrEnd
	}
	err = r.repeated(ctx, func() error { return r.Archive.Fetch(ctx, t, f, path) })
	if errors.Is(err, store.ErrAbsent) {
		err = ErrEnd
		if f.Kind == Segment {
			err = r.repeated(ctx, func() error { return r.missing(ctx, t, f, path) })
		}
	}
	if err == nil && f.Kind == Segment && r.Cache != "" {
		r.fetchNext(ctx, t, f)
	}
	return err
}

// missing tells the end from a gap.
func (r *Restorer) missing(ctx context.Context, t Timeline, f File, path string) error {
	end, ends := r.Lineage.end(f.Timeline)
	if ends && f.Number >= end {
		// Another timeline goes on from here.
		return ErrEnd
	}
	later, err := r.Archive.After(ctx, t, f.Number, nearEnd+1)
	if err != nil {
		return err
	}
	if ends && len(later) == 0 {
		return store.Refused{Why: fmt.Sprintf("%s is missing in the archive at %s, and timeline %d goes on to %s: nothing "+
			"after it can be restored from a copy of the data that was made before it",
			f.Name, r.Archive.Store, f.Timeline, SegmentOf(f.Timeline, end).Name)}
	}
	if len(later) == 0 {
		return ErrEnd
	}
	if last := later[len(later)-1]; last > f.Number+nearEnd || ends {
		return store.Refused{Why: fmt.Sprintf("%s is missing in the archive at %s, which goes on with %s: nothing after it "+
			"can be restored from a copy of the data that was made before it",
			f.Name, r.Archive.Store, SegmentOf(f.Timeline, later[0]).Name)}
	}
	// A server keeps several at once: this one may be under way.
	settling := cmp.Or(r.Settling, defaultSettling)
	settled, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		select {
		case <-settled.Done():
			r.Log.Warn("the archive ends here, although it has some segments that come later: their server did not come to "+
				"this one", "file", f.Name, "later", SegmentOf(f.Timeline, later[0]).Name)
			return ErrEnd
		case <-time.After(settling / 6):
		}
		if err := r.Archive.Fetch(ctx, t, f, path); !errors.Is(err, store.ErrAbsent) {
			return err
		}
	}
}

// repeated asks again while the store does not answer.
func (r *Restorer) repeated(ctx context.Context, do func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do()
		if err == nil || errors.Is(err, store.ErrAbsent) || errors.Is(err, ErrEnd) || errors.As(err, new(store.Refused)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// fromCache gives a file that was fetched before. What is there is whole.
func (r *Restorer) fromCache(f File, path string) bool {
	return r.Cache != "" && f.Kind == Segment && os.Rename(r.cached(f), path) == nil
}

func (r *Restorer) cached(f File) string {
	t, _ := r.Lineage.Timeline(f.Timeline)
	return filepath.Join(r.Cache, t.String()+"."+f.Name)
}

// fetchNext fetches the segments that come next, when none of them is there yet. What does not succeed is asked for
// later.
func (r *Restorer) fetchNext(ctx context.Context, t Timeline, f File) {
	if err := os.MkdirAll(r.Cache, 0o700); err != nil {
		return
	}
	var next []File
	for number := f.Number + 1; number <= f.Number+int64(r.Parallel); number++ {
		next = append(next, SegmentOf(f.Timeline, number))
	}
	r.clear(next)
	if slices.ContainsFunc(next, func(f File) bool { _, err := os.Lstat(r.cached(f)); return err == nil }) {
		return
	}
	var all sync.WaitGroup
	for _, f := range next {
		all.Go(func() { _ = r.Archive.Fetch(ctx, t, f, r.cached(f)) })
	}
	all.Wait()
}

// clear removes what nobody asks for any more, and what was cut off.
func (r *Restorer) clear(next []File) {
	entries, err := os.ReadDir(r.Cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(r.Cache, entry.Name())
		if !slices.ContainsFunc(next, func(f File) bool { return r.cached(f) == path }) {
			_ = os.Remove(path)
		}
	}
}
