// SPDX-License-Identifier: Apache-2.0

package processlog_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/processlog"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// buffer is a container's log that is read.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestAllIsPassedOn(t *testing.T) {
	var stdout, stderr buffer
	l, err := processlog.New(&stdout, &stderr, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&want, "line %d\n", n)
		fmt.Fprintf(l.Stdout, "line %d\n", n)
	}
	fmt.Fprintln(l.Stderr, "trouble")
	l.Close(patience)
	if stdout.String() != want.String() || stderr.String() != "trouble\n" {
		t.Errorf("got %d and %q, want %d bytes and the trouble", len(stdout.String()), stderr.String(), want.Len())
	}
	pieces, _, missed, _ := l.Tail.From(0)
	kept := map[processlog.Stream]string{}
	for _, p := range pieces {
		kept[p.Stream] += string(p.Data)
	}
	if missed != 0 || kept[processlog.Stdout] != want.String() || kept[processlog.Stderr] != "trouble\n" {
		t.Errorf("%d bytes are missed, and %d kept", missed, len(kept[processlog.Stdout]))
	}
}

// TestALogThatNobodyReadsHoldsNobodyUp writes much more than anything between can hold.
func TestALogThatNobodyReadsHoldsNobodyUp(t *testing.T) {
	blocked, release := io.Pipe()
	var warnings buffer
	l, err := processlog.New(release, io.Discard, slog.New(slog.NewTextHandler(&warnings, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const size = 16 << 20
	line := []byte(strings.Repeat("x", 1023) + "\n")
	written := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < size && err == nil; n += len(line) {
			_, err = l.Stdout.Write(line)
		}
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("the process waits for its log")
	}
	// The reader comes back, and is told.
	go func() { _, _ = io.Copy(io.Discard, blocked) }()
	l.Close(patience)
	if !strings.Contains(warnings.String(), "was dropped") {
		t.Errorf("nothing tells of what was dropped: %q", warnings.String())
	}
	pieces, next, missed, _ := l.Tail.From(0)
	kept := 0
	for _, p := range pieces {
		kept += len(p.Data)
	}
	if kept > processlog.Kept || kept < processlog.Kept/2 || next != size || missed != int64(size-kept) {
		t.Errorf("%d bytes are kept up to %d, and %d missed", kept, next, missed)
	}
}

// TestShortLinesWait: a reader that is late gets each of many lines that were written one by one.
func TestShortLinesWait(t *testing.T) {
	const lines = 20000
	blocked, release := io.Pipe()
	l, err := processlog.New(release, io.Discard, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range lines {
		fmt.Fprintf(l.Stdout, "line %d\n", n)
	}
	var got strings.Builder
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(&got, blocked) }()
	l.Close(patience)
	release.Close()
	<-read
	if all := strings.Count(got.String(), "\n"); all != lines ||
		!strings.HasSuffix(got.String(), fmt.Sprintf("line %d\n", lines-1)) {
		t.Errorf("%d of %d lines were passed on", all, lines)
	}
}

func TestTheTailIsFollowed(t *testing.T) {
	l, err := processlog.New(io.Discard, io.Discard, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(patience)
	_, _, _, more := l.Tail.From(0)
	fmt.Fprint(l.Stdout, "0123456789")
	await(t, more)
	place := l.Tail.Last(4)
	pieces, next, missed, more := l.Tail.From(place)
	if len(pieces) != 1 || string(pieces[0].Data) != "6789" || missed != 0 {
		t.Fatalf("got %v, %d missed", pieces, missed)
	}
	fmt.Fprint(l.Stderr, "more")
	await(t, more)
	if pieces, _, _, _ = l.Tail.From(next); len(pieces) != 1 || string(pieces[0].Data) != "more" ||
		pieces[0].Stream != processlog.Stderr {
		t.Errorf("got %v", pieces)
	}
}

func await(t *testing.T, more <-chan struct{}) {
	t.Helper()
	select {
	case <-more:
	case <-time.After(patience):
		t.Fatal("nothing more comes")
	}
}
