// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// ErrChanged says that an object became another one while it was read: what was read of it is of no use.
var ErrChanged = errors.New("the object was changed while it was read")

// keptHeaders are headers of an object that are kept, by their names in S3.
var keptHeaders = []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language"}

// headerExpires is kept, too; the client has it apart from the others.
const headerExpires = "Expires"

// Reader reads one version of an object. A transfer that breaks off goes on where it was, as long as the object is the
// same.
type Reader struct {
	// Entry is what is read: another version than was asked for, where that was replaced before.
	mover.Entry

	storage *Storage
	ctx     context.Context
	body    io.ReadCloser
	offset  int64
	// encrypted says that the storage has it encrypted, so that its ETag is no sum of the content.
	encrypted bool
	// since is when something came last.
	since time.Time
}

// Open begins to read an object, as a listing has it or as it is by now; store.ErrAbsent when it is gone.
func (s *Storage) Open(ctx context.Context, o Object) (*Reader, error) {
	if !utf8.ValidString(o.Key) {
		return nil, store.Refused{Why: fmt.Sprintf("the key %q in bucket %q is no UTF-8, and cannot be kept", o.Key,
			o.Bucket)}
	}
	r := &Reader{Entry: o.Entry, storage: s, ctx: ctx, since: time.Now()}
	info, err := r.begin(o.ETag)
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrAbsent) && r.Version != "" {
		// It was replaced since it was listed: what is there now is as good. The next backup reads it again, since nobody
		// said when it came.
		r.Version = ""
		info, err = r.begin("")
		if err == nil {
			r.Modified = info.LastModified.UTC()
		}
	}
	if err != nil {
		return nil, err
	}
	if info.ETag != r.ETag || info.Size != r.Size {
		r.ETag, r.Size, r.Modified = info.ETag, info.Size, info.LastModified.UTC()
	}
	r.describe(info)
	if !o.Tagged && info.UserTagCount > 0 && o.Tags == nil || o.Version != r.Version {
		if r.Tags, err = s.Tags(ctx, &r.Entry); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// describe notes what the storage says of the object.
func (r *Reader) describe(info minio.ObjectInfo) {
	r.ContentType, r.Headers, r.Metadata = info.ContentType, nil, nil
	r.encrypted = info.Metadata.Get("X-Amz-Server-Side-Encryption") != "" ||
		info.Metadata.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") != ""
	headers := map[string]string{}
	for _, name := range keptHeaders {
		if value := info.Metadata.Get(name); value != "" {
			headers[name] = value
		}
	}
	if !info.Expires.IsZero() {
		headers[headerExpires] = info.Expires.UTC().Format(http.TimeFormat)
	}
	if len(headers) > 0 {
		r.Headers = headers
	}
	if len(info.UserMetadata) > 0 {
		r.Metadata = info.UserMetadata
	}
}

// begin asks for what comes after the offset of the version with an ETag; of whichever there is when that is empty.
func (r *Reader) begin(etag string) (minio.ObjectInfo, error) {
	s := r.storage
	return store.Ask(r.ctx, s.patience, func(context.Context) (minio.ObjectInfo, error) {
		options := minio.GetObjectOptions{VersionID: r.Version}
		if etag != "" {
			if err := options.SetMatchETag(etag); err != nil {
				return minio.ObjectInfo{}, store.Refused{Why: err.Error()}
			}
		}
		if r.offset > 0 {
			if err := options.SetRange(r.offset, 0); err != nil {
				return minio.ObjectInfo{}, err
			}
		}
		// What comes is read after the answer, so that its time is not that of the question.
		body, info, _, err := minio.Core{Client: s.client}.GetObject(r.ctx, r.Bucket, r.Key, options)
		if err != nil {
			return info, s.said(r.Bucket, err)
		}
		r.body = s.patience.Reader(r.ctx, body)
		return info, nil
	})
}

// Read implements [io.Reader]. It ends well only when all of the object has come.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if r.offset == r.Size {
			return 0, io.EOF
		}
		if r.body == nil {
			info, err := r.begin(r.ETag)
			switch {
			case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrAbsent), err == nil && info.ETag != r.ETag:
				return 0, ErrChanged
			case err != nil:
				return 0, err
			}
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.Size-r.offset)])
		if n > 0 {
			r.offset, r.since = r.offset+int64(n), time.Now()
			return n, nil
		}
		if err == nil {
			continue
		}
		_ = r.Close()
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		if time.Since(r.since) > r.storage.patience.Total {
			return 0, fmt.Errorf("object %q of bucket %q broke off after %d of %d bytes: %w", r.Key, r.Bucket, r.offset, r.Size,
				err)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Close implements [io.Closer].
func (r *Reader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
