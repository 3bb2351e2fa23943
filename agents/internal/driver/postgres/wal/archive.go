// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zeroinfra/agents/internal/store"
)

// Archive is the log of one system in a store. It is safe for concurrent use.
type Archive struct {
	Store store.Store
}

// mark says whose an archive is.
type mark struct {
	// Format of the archive: 1.
	Format int `json:"format"`
	Identity
}

// Identity tells data apart from other data, and log that goes on from it.
type Identity struct {
	// System is the number that initdb gave.
	System string `json:"system"`
	// Restore is what the restore was given that made the data of a copy of another server's, which has the same number;
	// empty where none did.
	Restore string `json:"restore,omitempty"`
}

// String names it, for people.
func (i Identity) String() string {
	if i.Restore == "" {
		return "system " + i.System
	}
	return "system " + i.System + ", restored as " + i.Restore
}

// Claim makes the archive that of a server's data, or says whose it is.
func (a *Archive) Claim(ctx context.Context, whose Identity) error {
	for range 2 {
		has, err := a.mark(ctx)
		switch {
		case err == nil && has.Identity == whose:
			return nil
		case err == nil:
			return store.Refused{Why: fmt.Sprintf("the archive at %s is of %s, and this is %s: give this one a place of its own",
				a.Store, has.Identity, whose)}
		case !errors.Is(err, store.ErrAbsent):
			return err
		}
		text, err := json.Marshal(mark{Format: 1, Identity: whose})
		if err != nil {
			return err
		}
		if err := a.Store.Put(ctx, markName, bytes.NewReader(text), int64(len(text))); !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return fmt.Errorf("the mark of the archive at %s comes and goes", a.Store)
}

// Belongs refuses an archive of other data.
func (a *Archive) Belongs(ctx context.Context, whose Identity) error {
	has, err := a.mark(ctx)
	switch {
	case errors.Is(err, store.ErrAbsent):
		return store.Refused{Why: fmt.Sprintf("there is no archive at %s", a.Store)}
	case err == nil && has.Identity != whose:
		return store.Refused{Why: fmt.Sprintf("the archive at %s is of %s, and this is %s", a.Store, has.Identity, whose)}
	}
	return err
}

func (a *Archive) mark(ctx context.Context) (mark, error) {
	text, err := a.Store.Head(ctx, markName, headBytes)
	if err != nil {
		return mark{}, err
	}
	var m mark
	if err := json.Unmarshal(text, &m); err != nil || m.System == "" {
		return mark{}, store.Refused{Why: fmt.Sprintf("%s in %s is none that an archive is marked with", markName, a.Store)}
	}
	if m.Format != 1 {
		return mark{}, store.Refused{Why: fmt.Sprintf("the archive at %s has the format %d, and this agent knows 1", a.Store,
			m.Format)}
	}
	return m, nil
}

// Keep keeps a file. When it returns without an error, the file is in the store for good; one that is there already
// with the same content is as good, and one with another content is refused. Of partial ones of a name the first is
// enough.
func (a *Archive) Keep(ctx context.Context, t Timeline, f File, file io.Reader, terms map[int64]int64) (Sum, error) {
	if f.Kind != History {
		terms = nil
	}
	packed, sum, err := pack(file, terms)
	if err != nil {
		return Sum{}, err
	}
	if f.Kind == Segment && sum.Bytes != SegmentBytes {
		return Sum{}, fmt.Errorf("%s has %d bytes, and a segment has %d", f.Name, sum.Bytes, SegmentBytes)
	}
	name := object(t, f)
	if err := a.Store.Put(ctx, name, bytes.NewReader(packed), int64(len(packed))); !errors.Is(err, store.ErrExists) {
		return sum, err
	}
	if f.Kind == Partial {
		// Each server that leaves a timeline has one of its own, and nobody restores from it: the next timeline has all of
		// it.
		return sum, nil
	}
	there, err := a.Sum(ctx, name)
	if err == nil && !there.same(sum) {
		err = store.Refused{Why: fmt.Sprintf("the archive at %s has another %s: two servers write to one place, or this "+
			"one went back in time; give this one a place of its own", a.Store, f.Name)}
	}
	return there, err
}

// Sum of the file that an object is of.
func (a *Archive) Sum(ctx context.Context, name string) (Sum, error) {
	head, err := a.Store.Head(ctx, name, headBytes)
	if err != nil {
		return Sum{}, err
	}
	sum, more, err := readSum(head)
	if err == nil && more > 0 {
		if head, err = a.Store.Head(ctx, name, more); err != nil {
			return Sum{}, err
		}
		if sum, more, err = readSum(head); more > 0 {
			err = errCorrupt
		}
	}
	if err != nil {
		return Sum{}, store.Refused{Why: fmt.Sprintf("%s in the archive at %s is broken: %v", name, a.Store, err)}
	}
	return sum, nil
}

// Fetch writes a file of the archive beside where it is to be, and gives it its name when it is whole. ErrAbsent says
// that it is not there.
func (a *Archive) Fetch(ctx context.Context, t Timeline, f File, path string) error {
	name := object(t, f)
	packed, err := a.Store.Open(ctx, name)
	if err != nil {
		return err
	}
	defer packed.Close()
	part := fmt.Sprintf("%s.%d.part", path, os.Getpid())
	file, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	_, err = unpack(packed, file)
	if errors.Is(err, errCorrupt) {
		err = store.Refused{Why: fmt.Sprintf("%s in the archive at %s is broken: %v", name, a.Store, err)}
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Timelines that the archive has histories of, in their order, and then in that of their terms.
func (a *Archive) Timelines(ctx context.Context) ([]Timeline, error) {
	var all []Timeline
	for name, err := range a.Store.List(ctx, timelinesFolder, "") {
		if err != nil {
			return nil, err
		}
		text := strings.TrimSuffix(strings.TrimPrefix(name, timelinesFolder+"/"), ".history"+compressed)
		if t, err := ParseTimeline(text); err == nil {
			all = append(all, t)
		}
	}
	return all, nil
}

// After are the numbers of the segments of a timeline that the archive has after one, at most so many.
func (a *Archive) After(ctx context.Context, t Timeline, number int64, most int) ([]int64, error) {
	var all []int64
	folder, after := logFolder+"/"+t.String(), ""
	if number >= 0 {
		after = object(t, SegmentOf(t.Number, number))
	}
	for name, err := range a.Store.List(ctx, folder, after) {
		if err != nil {
			return nil, err
		}
		f, err := Parse(strings.TrimSuffix(strings.TrimPrefix(name, folder+"/"), compressed))
		if err != nil || f.Kind != Segment {
			continue
		}
		if all = append(all, f.Number); len(all) >= most {
			break
		}
	}
	return all, nil
}
