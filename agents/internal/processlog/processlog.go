// SPDX-License-Identifier: Apache-2.0

// Package processlog stands between the process and the container's log: it passes on what the process writes, keeps
// the end of it for who asks, and never has the process wait. When nobody reads the container's log, what does not fit
// is dropped and counted.
package processlog

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// chunk is how many bytes are read at once.
	chunk = 16 << 10
	// mostWaiting is how many bytes of an output wait for the reader of the container's log. Bytes are counted, and not
	// what was written at once: a process that writes line by line has a thousand of them written before the next
	// goroutine runs.
	mostWaiting = 1 << 20
)

// Log passes on the two outputs of the process. Make it with New.
type Log struct {
	// Stdout and Stderr are for the process to write to.
	Stdout, Stderr *os.File
	// Tail is the end of both.
	Tail *Tail

	passages []*passage
}

// passage of one output.
type passage struct {
	stream      Stream
	read, write *os.File
	to          io.Writer
	// more has a token while something waits, and is closed at the end; given is closed when all of it is written.
	more, given chan struct{}

	mu      sync.Mutex
	waiting []byte
	dropped int
}

// New passes on what is written, until Close.
func New(stdout, stderr io.Writer, log *slog.Logger) (*Log, error) {
	l := &Log{Tail: newTail()}
	for _, output := range []struct {
		stream Stream
		to     io.Writer
		file   **os.File
	}{{Stdout, stdout, &l.Stdout}, {Stderr, stderr, &l.Stderr}} {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("cannot make a pipe for the output of the process: %w", err)
		}
		*output.file = write
		p := &passage{stream: output.stream, read: read, write: write, to: output.to, more: make(chan struct{}, 1),
			given: make(chan struct{})}
		l.passages = append(l.passages, p)
		go p.take(l.Tail)
		go p.give(log)
	}
	return l, nil
}

// Close waits until what was written is passed on, at most for the given time. The process has ended.
func (l *Log) Close(limit time.Duration) {
	deadline := time.Now().Add(limit)
	for _, p := range l.passages {
		// The end comes when nobody else has the pipe open; a stray process may.
		p.write.Close()
		_ = p.read.SetReadDeadline(deadline)
	}
	timeout := time.After(limit)
	for _, p := range l.passages {
		select {
		case <-p.given:
		case <-timeout:
			return
		}
	}
}

// take reads until the last writer is gone, and waits for nobody.
func (p *passage) take(tail *Tail) {
	defer close(p.more)
	buffer := make([]byte, chunk)
	for {
		n, err := p.read.Read(buffer)
		if n > 0 {
			tail.add(p.stream, append([]byte(nil), buffer[:n]...))
			p.offer(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// offer has data written after what waits already, or drops it where that is too much.
func (p *passage) offer(data []byte) {
	p.mu.Lock()
	if len(p.waiting)+len(data) > mostWaiting {
		p.dropped += len(data)
	} else {
		p.waiting = append(p.waiting, data...)
	}
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// give writes to the container's log, which may take its time.
func (p *passage) give(log *slog.Logger) {
	defer close(p.given)
	for range p.more {
		p.mu.Lock()
		data, dropped := p.waiting, p.dropped
		p.waiting, p.dropped = nil, 0
		p.mu.Unlock()
		// There is nowhere to report a log that cannot be written.
		_, _ = p.to.Write(data)
		if dropped > 0 {
			log.Warn("output of the process was dropped: the container's log was not read in time", "bytes", dropped)
		}
	}
}
