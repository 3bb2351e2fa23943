// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// ahead is how many pieces are read before they are needed.
const ahead = 3

// downloader reads the data of a backup, in order, some pieces ahead. The last piece of a part is given when the part's
// sum is right: nobody ever gets the end of data that is damaged.
type downloader struct {
	ctx    context.Context
	cancel context.CancelFunc
	pace   *pace
	pieces chan chan piece
	rest   []byte
	sum    hash.Hash
	err    error
}

// piece of a part.
type piece struct {
	part mover.Part
	last bool
	data []byte
	err  error
}

func (m *Mover) download(ctx context.Context, manifest *mover.Manifest, p *pace) *downloader {
	d := &downloader{pace: p, pieces: make(chan chan piece, cmp.Or(m.ahead, ahead)-1), sum: sha256.New()}
	d.ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		defer close(d.pieces)
		for _, part := range manifest.Parts {
			for offset := int64(0); offset < part.Size; offset += store.PieceSize {
				next := make(chan piece, 1)
				select {
				case <-d.ctx.Done():
					return
				case d.pieces <- next:
				}
				size := min(part.Size-offset, store.PieceSize)
				go func() {
					data, err := m.repository.ReadRange(d.ctx, manifest.Key+"/"+part.Name, offset, int(size))
					next <- piece{part: part, last: offset+size == part.Size, data: data, err: err}
				}()
			}
		}
	}()
	return d
}

// Read implements io.Reader.
func (d *downloader) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.err == nil {
		d.rest, d.err = d.next()
	}
	if len(d.rest) == 0 {
		return 0, d.err
	}
	n := copy(p[:min(len(p), 256<<10)], d.rest)
	if err := d.pace.wait(d.ctx, n); err != nil {
		return 0, err
	}
	d.rest = d.rest[n:]
	return n, nil
}

// next is the next piece, checked as far as it can be.
func (d *downloader) next() ([]byte, error) {
	var got piece
	select {
	case <-d.ctx.Done():
		return nil, context.Cause(d.ctx)
	case next, more := <-d.pieces:
		if !more {
			if d.ctx.Err() != nil {
				return nil, context.Cause(d.ctx)
			}
			return nil, io.EOF
		}
		got = <-next
	}
	switch {
	case errors.Is(got.err, store.ErrAbsent):
		return nil, damaged("the part %s is missing", got.part.Name)
	case errors.Is(got.err, io.ErrUnexpectedEOF):
		return nil, damaged("the part %s is shorter than it was", got.part.Name)
	case got.err != nil:
		return nil, got.err
	}
	d.sum.Write(got.data)
	if got.last {
		if hex.EncodeToString(d.sum.Sum(nil)) != got.part.SHA256 {
			return nil, damaged("the part %s is not what it was: its SHA-256 is another", got.part.Name)
		}
		d.sum.Reset()
	}
	return got.data, nil
}

func (d *downloader) close() { d.cancel() }
