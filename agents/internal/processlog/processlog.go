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

	"golang.org/x/sys/unix"
)

const (
	// chunk is how many bytes are read at once.
	chunk = 16 << 10
	// pipeSize is how many bytes a pipe holds at most, unless somebody asks the kernel for more.
	pipeSize = 64 << 10
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

	// taking is held while something is taken out of the pipe, so that it is in the Tail when it is in the pipe no more.
	taking sync.Mutex
	buffer []byte
	// ended says that nothing is taken any more.
	ended bool

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
			given: make(chan struct{}), buffer: make([]byte, chunk)}
		l.passages = append(l.passages, p)
		go p.takeAll(l.Tail)
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

// Drain has the Tail have all that a process wrote that has ended: some of it may still be in the pipes.
func (l *Log) Drain() {
	for _, p := range l.passages {
		p.drain(l.Tail)
	}
}

// LastWords of a process that has ended and wrote from a place of the Tail on. See Tail.LastLine.
func (l *Log) LastWords(place int64) string {
	l.Drain()
	if said := l.Tail.LastLine(place, Stderr); said != "" {
		return said
	}
	return l.Tail.LastLine(place, Stdout)
}

// takeAll reads until the last writer is gone, and waits for nobody.
func (p *passage) takeAll(tail *Tail) {
	defer p.end()
	// The file is open: there is no other error than that it is not.
	from, err := p.read.SyscallConn()
	for n := 1; err == nil && n != 0; {
		err = from.Read(func(fd uintptr) bool {
			n = p.take(int(fd), tail)
			return n >= 0
		})
	}
}

// drain takes what is in the pipe.
func (p *passage) drain(tail *Tail) {
	from, err := p.read.SyscallConn()
	if err != nil {
		return
	}
	_ = from.Control(func(fd uintptr) {
		// Others than the process may go on writing.
		for taken := 0; taken < pipeSize; {
			n := p.take(int(fd), tail)
			if n <= 0 {
				return
			}
			taken += n
		}
	})
}

// take takes some bytes out of the pipe and returns how many: -1 where there are none yet, and 0 where none will come.
func (p *passage) take(fd int, tail *Tail) int {
	p.taking.Lock()
	defer p.taking.Unlock()
	if p.ended {
		return 0
	}
	n, err := unix.Read(fd, p.buffer)
	for err == unix.EINTR {
		n, err = unix.Read(fd, p.buffer)
	}
	switch {
	case err == unix.EAGAIN:
		return -1
	case err != nil || n <= 0:
		return 0
	}
	tail.add(p.stream, append([]byte(nil), p.buffer[:n]...))
	p.offer(p.buffer[:n])
	return n
}

// end has nothing be taken any more.
func (p *passage) end() {
	p.taking.Lock()
	defer p.taking.Unlock()
	p.ended = true
	close(p.more)
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
