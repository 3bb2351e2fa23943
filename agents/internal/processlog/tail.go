// SPDX-License-Identifier: Apache-2.0

package processlog

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

const (
	// Kept is how many bytes of both outputs together are kept.
	Kept = 256 << 10
	// maxPieces bounds what many short pieces cost beside their bytes.
	maxPieces = 4096
	// recent is how many bytes of both outputs together are looked at for the last line: what an output has before is no
	// reason for an end.
	recent = 16 << 10
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

// End is the place after all that was written.
func (t *Tail) End() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// colours are what terminals take for colours and other looks of a text.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// LastLine is the last line of an output from a place on, as text; empty where both outputs have gone on for long
// without one. A line that begins with a blank goes on with the one before, as those of a stack trace do, and one
// without a letter, such as a bracket, says nothing: both are passed over.
func (t *Tail) LastLine(place int64, of Stream) string {
	begin := max(place, t.Last(recent))
	pieces, _, _, _ := t.From(begin)
	var all []byte
	for _, piece := range pieces {
		if piece.Stream == of {
			all = append(all, piece.Data...)
		}
	}
	if begin > place {
		// The end of a line is none: nobody would know the half of a password in it.
		_, all, _ = bytes.Cut(all, []byte{'\n'})
	}
	for rest := all; len(rest) > 0; {
		at := bytes.LastIndexByte(rest, '\n')
		line := colours.ReplaceAllString(strings.ToValidUTF8(string(rest[at+1:]), "?"), "")
		if strings.ContainsFunc(line, unicode.IsLetter) && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			return strings.TrimSpace(strings.Map(printed, line))
		}
		rest = rest[:max(at, 0)]
	}
	return ""
}

// printed is a character as it is, and a blank in the place of one that is not to be seen.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
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
