// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

const (
	// ahead is how many files a server's request is kept with, for each one that is kept at once.
	ahead = 2
	// lastTime is what a server that stops waits for a store that does not answer.
	lastTime = 3 * time.Second
	// The time between attempts begins with firstPause and doubles up to longestPause.
	firstPause, longestPause = 250 * time.Millisecond, 5 * time.Second
	// look is the time between looks at whether the server stops.
	look = 250 * time.Millisecond
)

// Archiver keeps the files of one server.
type Archiver struct {
	Archive *Archive
	Data    Data
	// Notes is a folder that the containers of the pod share: what is kept already is noted there, and how it goes.
	Notes string
	// Parallel files are kept at once. Each takes up to 24 MiB of memory.
	Parallel int
	// Patience with a store that does not answer; the server asks again after that.
	Patience time.Duration
	// Alarm is the share of the volume, in percent, below which log that waits is a reason to worry.
	Alarm int
	Log   *slog.Logger
}

// Keep keeps a file that the server asks for, and with it some of those that it will ask for. Without an error the file
// is in the store for good.
func (a *Archiver) Keep(ctx context.Context, name string) error {
	f, err := Parse(name)
	if err != nil {
		return err
	}
	state := a.state()
	if err = a.Data.Recall(name); err == nil {
		err = a.keep(ctx, f, &state)
	}
	if errors.Is(err, ErrStops) {
		// Whoever starts it next asks again: nothing is wrong with the archive for that.
		return err
	}
	a.note(&state, f, err)
	return err
}

// Failed notes why a file cannot be kept at all.
func (a *Archiver) Failed(name string, why error) {
	state := a.state()
	a.note(&state, File{Name: name}, why)
}

// ErrStops ends what waits for a store while the server stops.
var ErrStops = errors.New("the server stops, and the store does not answer")

func (a *Archiver) keep(ctx context.Context, f File, state *State) error {
	whose, err := a.Data.Identity()
	if err != nil {
		return err
	}
	if done, err := a.isNoted(whose, f); done || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.Patience,
		fmt.Errorf("%s does not answer within %s", a.Archive.Store, a.Patience))
	defer cancel()
	ctx, stop := a.Data.WhileServed(ctx)
	defer stop()
	if state.VolumeBytes == 0 {
		// Whoever looks meanwhile can tell how the volume fills up.
		a.count(state)
		a.conclude(state, time.Now().UTC())
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := a.attempt(ctx, whose, f, state)
		if err == nil || errors.As(err, new(store.Refused)) || errors.As(err, new(store.Full)) {
			return err
		}
		if ctx.Err() == nil && !a.Data.ends() {
			a.note(state, f, err)
		}
		select {
		case <-ctx.Done():
			return given(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// given up for a cause: what the store said last is said, where it said anything.
func given(cause, last error) error {
	switch {
	case errors.Is(cause, ErrStops):
		return fmt.Errorf("%w: %w", ErrStops, last)
	case errors.Is(last, cause), errors.Is(last, context.Canceled), errors.Is(last, context.DeadlineExceeded):
		return cause
	}
	return last
}

// WhileServed is a context that has a last time when the server of the data stops, and ends with ErrStops then.
func (d Data) WhileServed(ctx context.Context) (served context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go d.watch(ctx, cancel)
	return ctx, func() { cancel(nil) }
}

func (d Data) watch(ctx context.Context, stop context.CancelCauseFunc) {
	for !d.ends() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(lastTime):
		stop(ErrStops)
	}
}

// attempt keeps the file and those that are next.
func (a *Archiver) attempt(ctx context.Context, whose Identity, f File, state *State) error {
	if claim := a.claim(whose); state.Claim != claim {
		if err := a.Archive.Claim(ctx, whose); err != nil {
			return err
		}
		state.Claim = claim
	}
	terms, err := a.Data.Terms()
	if err != nil {
		return err
	}
	if f.Kind == History {
		if err := a.review(ctx, f, terms, state); err != nil {
			return err
		}
	}
	files, err := a.batch(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wanted error
	slots, all := make(chan struct{}, max(1, a.Parallel)), sync.WaitGroup{}
	for i, next := range files {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if i > 0 && ctx.Err() != nil {
				return
			}
			sum, err := a.one(ctx, next, terms)
			if i == 0 {
				if wanted = err; err != nil {
					cancel()
				}
				return
			}
			if err == nil {
				a.noteKept(whose, next, sum)
			}
		})
	}
	all.Wait()
	return wanted
}

// one keeps one file.
func (a *Archiver) one(ctx context.Context, f File, terms map[int64]int64) (Sum, error) {
	file, err := os.Open(a.Data.path("pg_wal", f.Name))
	if err != nil {
		return Sum{}, err
	}
	defer file.Close()
	return a.Archive.Keep(ctx, Timeline{f.Timeline, terms[f.Timeline]}, f, file, terms)
}

// batch is a file and the segments that the server will ask for next and that are not kept yet. What was noted of
// others is forgotten.
func (a *Archiver) batch(f File) ([]File, error) {
	files := []File{f}
	waiting, err := a.Data.waiting()
	if err != nil {
		return nil, err
	}
	noted := a.forget(waiting)
	if f.Kind != Segment {
		return files, nil
	}
	for _, next := range waiting {
		if len(files) >= ahead*max(1, a.Parallel) {
			break
		}
		if next.Kind == Segment && next.Timeline == f.Timeline && next.Number > f.Number &&
			!slices.Contains(noted, next.Name) {
			files = append(files, next)
		}
	}
	return files, nil
}

// claim names an archive and whose it is.
func (a *Archiver) claim(whose Identity) string {
	return strings.TrimSpace(whose.System+" "+whose.Restore) + " " + cmp.Or(a.Archive.Store.String(), "nowhere")
}
