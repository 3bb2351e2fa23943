// SPDX-License-Identifier: Apache-2.0

// Package jsonlog writes the agents' own log: one JSON object per line. Writing
// never waits for the reader of the log. A container runtime that stops reading
// must not keep a process manager from stopping or restarting a process, so
// lines that nobody takes are dropped and counted.
package jsonlog

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// capacity is how many lines wait for the reader.
const capacity = 256

// Log is a logger with a writer in the background.
type Log struct {
	*slog.Logger

	lines   chan []byte
	flushed chan chan struct{}
}

// New starts the writer, which lives as long as the program.
func New(out io.Writer, level slog.Level) *Log {
	l := &Log{lines: make(chan []byte, capacity), flushed: make(chan chan struct{})}
	l.Logger = slog.New(slog.NewJSONHandler((*queue)(l), &slog.HandlerOptions{Level: level}))
	go l.write(out)
	return l
}

// Flush waits until the lines so far are written, at most for the given time.
func (l *Log) Flush(limit time.Duration) {
	timeout := time.After(limit)
	done := make(chan struct{})
	select {
	case l.flushed <- done:
	case <-timeout:
		return
	}
	select {
	case <-done:
	case <-timeout:
	}
}

func (l *Log) write(out io.Writer) {
	for {
		select {
		case line := <-l.lines:
			// There is nowhere to report a log that cannot be written.
			_, _ = out.Write(line)
		case done := <-l.flushed:
			for len(l.lines) > 0 {
				_, _ = out.Write(<-l.lines)
			}
			close(done)
		}
	}
}

// queue is the side of a Log that takes lines.
type queue Log

// Write queues a copy of the line, or drops the oldest one when the queue is full.
func (q *queue) Write(line []byte) (int, error) {
	own := append([]byte(nil), line...)
	select {
	case q.lines <- own:
		return len(line), nil
	default:
	}
	select {
	case <-q.lines:
	default:
	}
	select {
	case q.lines <- own:
		return len(line), nil
	default:
		return 0, fmt.Errorf("cannot write a log line: %d are waiting", capacity)
	}
}
