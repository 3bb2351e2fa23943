// SPDX-License-Identifier: Apache-2.0

// Package publish brings the latest report to where it is read. Only a report
// that differs from the one written before is written, also across a restart of
// this agent. While the reader is away it is tried again, and the latest report wins.
package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
)

const (
	firstDelay   = 200 * time.Millisecond
	longestDelay = 5 * time.Second
	// lastWrite is how long a write under way may take when the agent ends: an
	// outcome that is not waited for is not remembered, and written once more.
	lastWrite = 2 * time.Second
)

// Write writes a report.
type Write func(ctx context.Context, text string) error

// Publisher writes reports in the background.
type Publisher struct {
	write Write
	path  string
	log   *slog.Logger

	// written is what was written last; it belongs to Run once that runs.
	written string

	mu     sync.Mutex
	latest string
	// fresh has room for one notice: there is a latest report.
	fresh chan struct{}
}

// New makes a publisher that remembers in the file what it has written.
func New(path string, write Write, log *slog.Logger) (*Publisher, error) {
	written, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the report written last: %w", err)
	}
	return &Publisher{write: write, path: path, log: log, written: string(written), fresh: make(chan struct{}, 1)}, nil
}

// Written is what was written last when the publisher was made; "" when nothing was.
func (p *Publisher) Written() string { return p.written }

// Set makes the report the latest; an earlier one that is not written yet is forgotten.
func (p *Publisher) Set(text string) {
	p.mu.Lock()
	p.latest = text
	p.mu.Unlock()
	select {
	case p.fresh <- struct{}{}:
	default:
	}
}

func (p *Publisher) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// Run writes reports until the context ends and a write under way is over.
func (p *Publisher) Run(ctx context.Context) {
	for {
		select {
		case <-p.fresh:
			p.deliver(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// deliver tries until the latest report is written.
func (p *Publisher) deliver(ctx context.Context) {
	delay, reason := firstDelay, ""
	for {
		text := p.get()
		if text == p.written || ctx.Err() != nil {
			return
		}
		err := p.writeOut(ctx, text)
		if err == nil {
			p.remember(text)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if err.Error() != reason {
			reason = err.Error()
			p.log.Warn("the report waits", "error", reason)
		}
		// Spread, so that a thousand pods do not come back at once.
		select {
		case <-time.After(delay/2 + rand.N(delay/2)):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, longestDelay)
	}
}

// writeOut writes a report, to the end also when the context ends meanwhile.
func (p *Publisher) writeOut(ctx context.Context, text string) error {
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWrite, cancel) })
	defer stop()
	return p.write(ending, text)
}

func (p *Publisher) remember(text string) {
	p.written = text
	p.log.Info("report written", "report", text)
	if err := atomicfile.Write(p.path, []byte(text), 0o640); err != nil {
		// The cost is one write too many after a restart.
		p.log.Warn("cannot remember the report", "error", err.Error())
	}
}
