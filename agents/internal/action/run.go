// SPDX-License-Identifier: Apache-2.0

package action

import (
	"slices"
	"strings"
	"sync"

	"github.com/zeroinfra/agents/internal/callrecord"
	"github.com/zeroinfra/agents/internal/command"
)

// pending is how many pieces of output wait for a listener before it misses some.
const pending = 64

// Piece of what an action wrote.
type Piece struct {
	Stream command.Stream
	Data   []byte
}

// Run is one call, under way or ended.
type Run struct {
	done chan struct{}

	mu        sync.Mutex
	record    callrecord.Record
	listeners []chan Piece
}

// ended is a run that is known by its record only.
func ended(record callrecord.Record) *Run {
	run := &Run{done: make(chan struct{}), record: record}
	close(run.done)
	return run
}

// Record is the call as it is recorded now.
func (r *Run) Record() callrecord.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// Done is closed when the action has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Listen returns what the action writes from now on, until stop is called.
func (r *Run) Listen() (pieces <-chan Piece, stop func()) {
	listener := make(chan Piece, pending)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, listener)
	return listener, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.listeners = slices.DeleteFunc(r.listeners, func(l chan Piece) bool { return l == listener })
	}
}

// tell passes output on to whoever keeps up.
func (r *Run) tell(stream command.Stream, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, listener := range r.listeners {
		select {
		case listener <- Piece{stream, data}:
		default:
		}
	}
}

// maxProgress bounds what is told of how far a run is, in bytes.
const maxProgress = 256

// progress has the record say how far the run is, until it ends.
func (r *Run) progress(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.record.Phase == callrecord.Running {
		r.record.Message = strings.ToValidUTF8(text[:min(len(text), maxProgress)], "")
	}
}

func (r *Run) finish(outcome callrecord.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Outcome = outcome
	close(r.done)
}
