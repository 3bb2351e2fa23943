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

// TestLastWords are there as soon as a process has written them, whoever else is still about to take them.
func TestLastWords(t *testing.T) {
	const out, err = "out", "err"
	much := strings.Repeat("x\n", 8192)
	for name, c := range map[string]struct {
		// written are outputs, each with a text after it.
		written []string
		want    string
	}{
		"nothing":              {nil, ""},
		"an error":             {[]string{out, "one\ntwo\n", err, "warning\nfatal: no model\n"}, "fatal: no model"},
		"no newline":           {[]string{err, "fatal"}, "fatal"},
		"to stdout":            {[]string{out, "one\nfatal\n", err, "\n"}, "fatal"},
		"a warning before":     {[]string{err, "warning\n", out, much + "fatal\n"}, "fatal"},
		"a warning not before": {[]string{err, "warning\n", out, "fatal\n"}, "warning"},
		"a stack trace":        {[]string{err, "error: Disk full\n\tat Disk.write\n  at Main\n\n"}, "error: Disk full"},
		"brackets":             {[]string{err, "{\n  \"error\": \"x\"\n}\n"}, ""},
		"colours":              {[]string{err, "\x1b[1;31mfatal:\x1b[0m no\troom\x07\r\n"}, "fatal: no room"},
		"no valid text":        {[]string{err, "caf\xe9\n"}, "caf?"},
		"another language":     {[]string{err, "致命错误\n"}, "致命错误"},
		"the end of a line":    {[]string{err, strings.Repeat("x", 20_000) + " password\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, failed := processlog.New(io.Discard, io.Discard, slog.New(slog.DiscardHandler))
			if failed != nil {
				t.Fatal(failed)
			}
			defer l.Close(patience)
			fmt.Fprintln(l.Stderr, "former")
			l.Drain()
			from := l.Tail.End()
			for n := 0; n < len(c.written); n += 2 {
				fmt.Fprint(map[string]io.Writer{out: l.Stdout, err: l.Stderr}[c.written[n]], c.written[n+1])
				// Of two pipes nobody knows what came first.
				l.Drain()
			}
			if got := l.LastWords(from); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestLastWordsAreDrained from a pipe that nobody has taken anything from yet.
func TestLastWordsAreDrained(t *testing.T) {
	for range 20 {
		l, err := processlog.New(io.Discard, io.Discard, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(l.Stderr, "fatal")
		if got := l.LastWords(0); got != "fatal" {
			t.Errorf("got %q", got)
		}
		l.Close(patience)
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
