// SPDX-License-Identifier: Apache-2.0

package processlog

import "sync"

const (
	// Kept is how many bytes of both outputs together are kept.
	Kept = 256 << 10
	// maxPieces bounds what many short pieces cost beside their bytes.
	maxPieces = 4096
)

// Stream is one of the outputs.
type Stream int

// Streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// Piece is what was read at once.
type Piece struct {
	Stream Stream
	Data   []byte
	// at is how many bytes came before, since the start.
	at int64
}

// Tail is the end of what was written. It is safe for concurrent use.
type Tail struct {
	mu      sync.Mutex
	pieces  []Piece
	size    int
	end     int64
	changed chan struct{}
}

func newTail() *Tail { return &Tail{changed: make(chan struct{})} }

func (t *Tail) add(stream Stream, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pieces = append(t.pieces, Piece{stream, data, t.end})
	t.size += len(data)
	t.end += int64(len(data))
	first := 0
	for t.size > Kept || len(t.pieces)-first > maxPieces {
		t.size -= len(t.pieces[first].Data)
		first++
	}
	clear(t.pieces[:first])
	t.pieces = t.pieces[first:]
	close(t.changed)
	t.changed = make(chan struct{})
}

// Last is the place from which on at most so many bytes were written; 0 stands for all that is kept.
func (t *Tail) Last(bytes int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bytes <= 0 {
		return t.begin()
	}
	return max(t.begin(), t.end-bytes)
}

// begin of what is kept. Called with the lock.
func (t *Tail) begin() int64 { return t.end - int64(t.size) }

// From returns what was written from a place on, and the place after that; how many bytes are kept no more of what was
// asked for; and a channel that is closed when there is more.
func (t *Tail) From(place int64) (pieces []Piece, next, missed int64, more <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if begin := t.begin(); place < begin {
		missed = begin - place
		place = begin
	}
	for _, p := range t.pieces {
		if p.at+int64(len(p.Data)) <= place {
			continue
		}
		p.Data = p.Data[max(0, place-p.at):]
		pieces = append(pieces, p)
	}
	return pieces, t.end, missed, t.changed
}
