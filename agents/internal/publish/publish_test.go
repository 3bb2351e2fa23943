// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroinfra/agents/internal/publish"
)

// reader is where reports are written to.
type reader struct {
	mu       sync.Mutex
	away     bool
	attempts int
	got      []string
	// hang, when not nil, holds each write until it is closed.
	hang chan struct{}
}

func (r *reader) write(ctx context.Context, text string) error {
	if r.hang != nil {
		select {
		case <-r.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts++
	if r.away {
		return errors.New("connection refused")
	}
	r.got = append(r.got, text)
	return nil
}

func (r *reader) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

func (r *reader) want(t *testing.T, texts ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, texts) {
		t.Errorf("written are %q, want %q", r.got, texts)
	}
}

// advance moves the virtual clock of the bubble; nothing real is waited for.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func start(t *testing.T, path string, r *reader) *publish.Publisher {
	t.Helper()
	p, err := publish.New(path, r.write, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go p.Run(t.Context())
	return p
}

func TestOnlyChangesAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		p := start(t, path, r)
		for _, text := range []string{"a", "a", "b", "b", "a"} {
			p.Set(text)
			synctest.Wait()
		}
		r.want(t, "a", "b", "a")
	})
}

func TestRestartWritesNothingThatIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		start(t, path, r).Set("a")
		r.want(t, "a")
		second := start(t, path, r)
		if got := second.Written(); got != "a" {
			t.Errorf("remembered is %q", got)
		}
		second.Set("a")
		r.want(t, "a")
		second.Set("b")
		r.want(t, "a", "b")
	})
}

func TestLatestReportIsWrittenWhenTheReaderReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{away: true}
		p := start(t, path, r)
		p.Set("a")
		advance(time.Hour)
		for _, text := range []string{"b", "c"} {
			p.Set(text)
			synctest.Wait()
		}
		r.want(t)
		r.mu.Lock()
		attempts := r.attempts
		r.mu.Unlock()
		// An hour with a longest delay between 2.5 and 5 seconds.
		if attempts < 700 || attempts > 1500 {
			t.Errorf("%d attempts in an hour", attempts)
		}
		r.setAway(false)
		advance(5 * time.Second)
		r.want(t, "c")
	})
}

func TestReportThatReturnsToWhatIsWrittenIsDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		p := start(t, path, r)
		p.Set("a")
		r.want(t, "a")
		r.setAway(true)
		p.Set("b")
		synctest.Wait()
		p.Set("a")
		advance(time.Minute)
		r.setAway(false)
		advance(time.Minute)
		r.want(t, "a")
	})
}

func TestSetNeverWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{hang: make(chan struct{})}
		p := start(t, path, r)
		begin := time.Now()
		for _, text := range []string{"a", "b", "c", "d"} {
			p.Set(text)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("Set took %v", took)
		}
		close(r.hang)
		synctest.Wait()
		if n := len(r.got); n == 0 || r.got[n-1] != "d" {
			t.Errorf("written are %q", r.got)
		}
	})
}

func TestWriteUnderWayIsFinishedAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			answers time.Duration
			want    string
		}{{time.Second, "a"}, {time.Hour, ""}} {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			r := &reader{hang: make(chan struct{})}
			p, err := publish.New(path, r.write, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				p.Run(ctx)
			}()
			p.Set("a")
			synctest.Wait()
			p.Set("b")
			begin := time.Now()
			cancel()
			time.AfterFunc(test.answers, func() { close(r.hang) })
			<-ended
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("the end took %v", took)
			}
			if got, err := publish.New(path, nil, nil); err != nil || got.Written() != test.want {
				t.Errorf("remembered is %q, %v; want %q", got.Written(), err, test.want)
			}
		}
	})
}

func TestMemoryThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if _, err := publish.New(dir, nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a folder was read as a report")
	}
	// The run folder vanishes: reports go out nevertheless.
	path := filepath.Join(dir, "gone", "report")
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		p := start(t, path, r)
		p.Set("a")
		p.Set("a")
		r.want(t, "a")
		if _, err := os.Stat(path); err == nil {
			t.Error("the file is there")
		}
	})
}
