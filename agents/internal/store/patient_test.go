// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/store"
)

// moody answers as it is told to: with an error, or never when that is nil.
type moody struct {
	store.Repository
	answers []error
	asked   atomic.Int32
}

func (m *moody) Remove(ctx context.Context, _ string) error {
	answer := m.answers[min(int(m.asked.Add(1)), len(m.answers))-1]
	if answer == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	if errors.Is(answer, errWell) {
		return nil
	}
	return answer
}

var (
	errWell  = errors.New("all is well")
	errFault = errors.New("a fault")
)

func TestPatient(t *testing.T) {
	for what, c := range map[string]struct {
		answers  []error
		patience time.Duration
		want     error
		asked    int
	}{
		"all is well":           {[]error{errWell}, time.Minute, nil, 1},
		"a fault passes":        {[]error{errFault, nil, errWell}, time.Minute, nil, 3},
		"a fault stays":         {[]error{errFault}, 300 * time.Millisecond, errFault, 2},
		"nobody answers":        {[]error{nil}, 0, store.ErrSilent, 1},
		"no repetition":         {[]error{errFault, errWell}, 0, errFault, 1},
		"it is not there":       {[]error{store.ErrAbsent, errWell}, time.Minute, store.ErrAbsent, 1},
		"it is refused":         {[]error{store.Refused{Why: "no"}, errWell}, time.Minute, store.Refused{Why: "no"}, 1},
		"there is no room":      {[]error{store.Full{Why: "no"}, errWell}, time.Minute, store.Full{Why: "no"}, 1},
		"a fault, then refused": {[]error{errFault, store.Refused{Why: "no"}}, time.Minute, store.Refused{Why: "no"}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{answers: c.answers}
			p := store.Patient{Repository: m, Patience: store.Patience{Answer: 50 * time.Millisecond, Total: c.patience,
				Log: slog.New(slog.DiscardHandler)}}
			if err := p.Remove(t.Context(), "a"); !errors.Is(err, c.want) || int(m.asked.Load()) != c.asked {
				t.Errorf("%s: %v after %d questions", what, err, m.asked.Load())
			}
		})
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errFault)
	p := store.Patient{Repository: &moody{answers: []error{nil}},
		Patience: store.Patience{Answer: time.Minute, Total: time.Hour, Log: slog.New(slog.DiscardHandler)}}
	if err := p.Remove(ended, "a"); !errors.Is(err, errFault) {
		t.Errorf("when it is to end: %v", err)
	}
}

// held never answers: neither who opens or lists, nor, once told to open, who reads.
type held struct {
	store.Repository
	opens bool
	until chan struct{}
}

func (h *held) Open(context.Context, string) (io.ReadCloser, error) {
	if !h.opens {
		<-h.until
	}
	return h, nil
}

func (h *held) Read([]byte) (int, error) { <-h.until; return 0, io.EOF }

func (h *held) Close() error { <-h.until; return nil }

func (h *held) List(context.Context, string, string) iter.Seq2[string, error] {
	return func(func(string, error) bool) { <-h.until }
}

func TestNobodyWaitsForAVolume(t *testing.T) {
	until := make(chan struct{})
	defer close(until)
	of := func(h *held) store.Patient {
		return store.Patient{Repository: h,
			Patience: store.Patience{Answer: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)}}
	}
	if _, err := of(&held{until: until}).Open(t.Context(), "a"); !errors.Is(err, store.ErrSilent) {
		t.Errorf("who opens is told %v", err)
	}
	object, err := of(&held{until: until, opens: true}).Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := object.Read(make([]byte, 10)); n != 0 || !errors.Is(err, store.ErrSilent) {
			t.Errorf("who reads is told %v after %d bytes", err, n)
		}
	}
	if err := object.Close(); err != nil {
		t.Errorf("who closes is told %v", err)
	}
	var listed error
	for _, err := range of(&held{until: until}).List(t.Context(), "a", "") {
		listed = errors.Join(listed, err)
	}
	if !errors.Is(listed, store.ErrSilent) {
		t.Errorf("who lists is told %v", listed)
	}
}

func TestPatientReads(t *testing.T) {
	folder, err := store.NewFolder(t.TempDir() + "/")
	if err != nil {
		t.Fatal(err)
	}
	p := store.Patient{Repository: folder,
		Patience: store.Patience{Answer: time.Minute, Log: slog.New(slog.DiscardHandler)}}
	text := bytes.Repeat([]byte("log "), 200_000)
	for _, name := range []string{"a/2", "a/1", "b/1"} {
		if err := p.Put(t.Context(), name, bytes.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(t.Context(), "a/1", bytes.NewReader(text), int64(len(text))); !errors.Is(err, store.ErrExists) {
		t.Errorf("what is there is put again: %v", err)
	}
	object, err := p.Open(t.Context(), "a/1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(object)
	if err = errors.Join(err, object.Close()); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d are read: %v", len(got), len(text), err)
	}
	if _, err := p.Open(t.Context(), "a/3"); !errors.Is(err, store.ErrAbsent) {
		t.Errorf("what is not there is opened with %v", err)
	}
	var names []string
	for name, err := range p.List(t.Context(), "a", "a/1") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"a/2"}) {
		t.Errorf("after the first there are %q", names)
	}
}
