// SPDX-License-Identifier: Apache-2.0

package modeldoor

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

const (
	// maxKept is the largest body that is kept, so that its request can be sent more than once.
	maxKept = 1 << 20
	// maxKeptTogether is how much of all bodies is kept. Further ones are read as they are sent.
	maxKeptTogether = 16 << 20
)

// body of a request: what was read of it, and the rest, which can be read once.
type body struct {
	kept []byte
	// rest is nil where all of the body is kept.
	rest io.Reader
	// begun says that a byte of the rest may have been read.
	begun atomic.Bool
	// room is what is left for bodies that are kept; taken is what this one has of it.
	room  *atomic.Int64
	taken int64
}

// read keeps the body of a request, as far as it may.
func read(r *http.Request, room *atomic.Int64) (*body, error) {
	b := &body{room: room}
	if r.Body == nil || r.Body == http.NoBody {
		return b, nil
	}
	size := int64(maxKept)
	if r.ContentLength >= 0 && r.ContentLength < size {
		size = r.ContentLength
	}
	if r.ContentLength > maxKept || room.Add(-size) < 0 {
		if r.ContentLength <= maxKept {
			room.Add(size)
		}
		b.rest = r.Body
		return b, nil
	}
	b.taken = size
	kept, err := io.ReadAll(io.LimitReader(r.Body, size+1))
	switch {
	case err != nil:
		b.release()
		return nil, err
	case int64(len(kept)) > size:
		b.rest = r.Body
	}
	b.kept = kept
	b.give(size - int64(len(kept)))
	return b, nil
}

// give returns room that the body does not need.
func (b *body) give(size int64) {
	if size > 0 {
		b.taken -= size
		b.room.Add(size)
	}
}

// release returns all of the room, once the request is over.
func (b *body) release() { b.give(b.taken) }

// again says whether the body can be sent from its beginning.
func (b *body) again() bool { return !b.begun.Load() }

// reader is the body from its beginning.
func (b *body) reader() io.ReadCloser {
	switch {
	case b.rest != nil:
		return &reader{body: b, from: io.MultiReader(bytes.NewReader(b.kept), b.rest)}
	case len(b.kept) == 0:
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(b.kept))
}

// reader reads a body whose rest can be read once. The server closes the body of a request: to close it here would keep
// it from being sent again.
type reader struct {
	body   *body
	from   io.Reader
	closed atomic.Bool
}

var errClosed = errors.New("the body was read after the attempt")

// Read implements io.Reader.
func (r *reader) Read(into []byte) (int, error) {
	if r.closed.Load() {
		return 0, errClosed
	}
	r.body.begun.Store(true)
	return r.from.Read(into)
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.closed.Store(true)
	return nil
}
