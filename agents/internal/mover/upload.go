// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// DefaultPartSize is how many bytes a part has at most: few enough that a manifest stays small, and that what is
	// looked at with each part is looked at often.
	DefaultPartSize = 256 << 20
	// parallel is how many pieces are on their way at once.
	parallel = 4
)

// uploader cuts what is written into parts, and these into pieces that are sent at once.
type uploader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	*attempt
	pace *pace

	// free has the buffers that nobody uses: nil ones are made when they are needed.
	free   chan []byte
	buffer []byte
	flying sync.WaitGroup

	// The part that is open: nil when none is.
	upload store.Upload
	sum    hash.Hash
	size   int64
	pieces int

	parts []mover.Part
	// after is how many parts of the backup come before.
	after int
}

// uploader for the attempt's data.
func (a *attempt) uploader(ctx context.Context, p *pace) *uploader {
	u := &uploader{attempt: a, pace: p, free: make(chan []byte, parallel+1)}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	for range parallel + 1 {
		u.free <- nil
	}
	return u
}

// Write implements io.Writer. An error is that of any piece before, too.
func (u *uploader) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if err := u.ready(); err != nil {
			return written, err
		}
		n := int(min(int64(len(p)), int64(cap(u.buffer)-len(u.buffer)), u.PartSize-u.size))
		if err := u.pace.wait(u.ctx, n); err != nil {
			return written, err
		}
		u.buffer = append(u.buffer, p[:n]...)
		u.sum.Write(p[:n])
		u.size += int64(n)
		written, p = written+n, p[n:]
		if len(u.buffer) == cap(u.buffer) {
			u.send()
		}
		if u.size == u.PartSize {
			if err := u.endPart(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// ready has a part open and a buffer to fill.
func (u *uploader) ready() error {
	if u.upload == nil {
		if err := u.latest(u.ctx); err != nil {
			return u.fail(err)
		}
		upload, err := u.repository.Begin(u.ctx, u.Backup.Key+"/"+u.nextName())
		if err != nil {
			return u.fail(err)
		}
		u.upload, u.sum, u.size, u.pieces = upload, sha256.New(), 0, 0
	}
	if u.buffer == nil {
		select {
		case <-u.ctx.Done():
			return context.Cause(u.ctx)
		case u.buffer = <-u.free:
			if u.buffer == nil {
				u.buffer = make([]byte, 0, store.PieceSize)
			}
		}
	}
	return nil
}

// nextName is that of the part that is open, or comes next.
func (u *uploader) nextName() string { return partName(u.run, u.after+len(u.parts)+1) }

func (u *uploader) fail(err error) error {
	u.cancel(err)
	return context.Cause(u.ctx)
}

// send has the buffer sent.
func (u *uploader) send() {
	u.pieces++
	upload, number, data := u.upload, u.pieces, u.buffer
	u.buffer = nil
	u.flying.Go(func() {
		if err := upload.Send(u.ctx, number, data); err != nil {
			u.cancel(err)
		}
		u.free <- data[:0]
	})
}

// endPart ends the open part when all of it has been sent.
func (u *uploader) endPart() error {
	if len(u.buffer) > 0 {
		u.send()
	}
	u.flying.Wait()
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	if err := u.upload.Finish(u.ctx); err != nil {
		return u.fail(err)
	}
	u.parts = append(u.parts, mover.Part{Name: u.nextName(), Size: u.size, SHA256: hex.EncodeToString(u.sum.Sum(nil))})
	u.upload = nil
	return nil
}

// end ends the last part and returns all.
func (u *uploader) end() ([]mover.Part, error) {
	if u.upload != nil {
		if err := u.endPart(); err != nil {
			return nil, err
		}
	}
	return u.parts, nil
}

// close ends what is on its way, and gives up the part that is open.
func (u *uploader) close() {
	u.cancel(context.Canceled)
	u.flying.Wait()
	if u.upload != nil {
		ctx, cancel := u.cleaning(u.ctx)
		defer cancel()
		if err := u.upload.Abandon(ctx); err != nil {
			u.Log.Warn("cannot give up a part", "error", err.Error())
		}
		u.upload = nil
	}
}
