// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// partSize is how many bytes a part of a large object has, as long as that makes no more than maxParts. One is in
	// memory.
	partSize = 16 << 20
	maxParts = 10000
)

// Outcome is what became of an object that was to be put somewhere.
type Outcome int

// The outcomes.
const (
	// Written: it is there now.
	Written Outcome = iota + 1
	// Present: it was there, with the same content.
	Present
	// Left: there is another one of that name, which stays.
	Left
)

// Ensure makes a bucket where there is none. One that is there stays as it is.
func (s *Storage) Ensure(ctx context.Context, b *mover.Bucket) error {
	_, err := store.Ask(ctx, s.patience, func(ctx context.Context) (struct{}, error) {
		there, err := s.client.BucketExists(ctx, b.Name)
		if err == nil && there {
			return struct{}{}, nil
		}
		if err == nil {
			err = s.client.MakeBucket(ctx, b.Name,
				minio.MakeBucketOptions{Region: cmp.Or(s.o.Region, store.DefaultRegion), ObjectLocking: b.Lock})
		}
		if code := minio.ToErrorResponse(err).Code; code == "BucketAlreadyOwnedByYou" || code == "BucketAlreadyExists" {
			// Somebody made it in the same moment; if it is somebody else's, nothing can be put into it.
			return struct{}{}, nil
		}
		if err == nil && b.Versioning != "" && !b.Lock {
			err = s.client.SetBucketVersioning(ctx, b.Name, minio.BucketVersioningConfiguration{Status: b.Versioning})
		}
		return struct{}{}, s.said(b.Name, err)
	})
	if err != nil {
		return fmt.Errorf("cannot make bucket %q: %w", b.Name, err)
	}
	return nil
}

// Put puts an object where there is none of its name. The storage compares the sum of what came.
func (s *Storage) Put(ctx context.Context, e *mover.Entry, content []byte) (Outcome, error) {
	_, err := store.Ask(ctx, s.patience, func(ctx context.Context) (struct{}, error) {
		options, err := optionsOf(e)
		if err != nil {
			return struct{}{}, err
		}
		options.SendContentMd5, options.DisableMultipart = true, true
		options.SetMatchETagExcept("*")
		_, err = s.client.PutObject(ctx, e.Bucket, e.Key, bytes.NewReader(content), int64(len(content)), options)
		return struct{}{}, s.said(e.Bucket, err)
	})
	if errors.Is(err, store.ErrExists) {
		return s.compare(ctx, e)
	}
	return Written, s.cannot(e, err)
}

// PutLarge is Put for an object that is read piece by piece. An error of the content leaves nothing.
func (s *Storage) PutLarge(ctx context.Context, e *mover.Entry, content io.Reader) (Outcome, error) {
	there, err := store.Ask(ctx, s.patience, func(ctx context.Context) (bool, error) {
		_, err := s.client.StatObject(ctx, e.Bucket, e.Key, minio.StatObjectOptions{})
		if err = s.said(e.Bucket, err); errors.Is(err, store.ErrAbsent) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return 0, s.cannot(e, err)
	}
	if there {
		return s.compare(ctx, e)
	}
	options, err := optionsOf(e)
	if err != nil {
		return 0, s.cannot(e, err)
	}
	return s.send(ctx, e, content, options, max(partSize, (e.Size+maxParts-1)/maxParts))
}

// send sends a large object in parts of a size.
func (s *Storage) send(ctx context.Context, e *mover.Entry, content io.Reader, options minio.PutObjectOptions,
	size int64) (Outcome, error) {
	options.NumThreads, options.PartSize = 1, uint64(size)
	taken := &source{from: content}
	var reader io.Reader = taken
	if size > partSize {
		// There is no memory for parts of that size.
		reader = inOrder{taken}
	}
	_, err := s.client.PutObject(ctx, e.Bucket, e.Key, reader, e.Size, options)
	if wrong := taken.end(); err != nil && wrong != nil {
		return 0, wrong
	}
	return Written, s.cannot(e, s.said(e.Bucket, err))
}

// source is content as a client takes it. It knows what was wrong with it: clients have words of their own for that.
type source struct {
	mu    sync.Mutex
	from  io.Reader
	at    int64
	err   error
	ended bool
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := s.from.Read(p)
	s.at += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// end says what was wrong. From then on nothing is read: a client that has an answer may still be sending.
func (s *source) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.err
}

func (s *source) offset() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// inOrder is a source that a client takes piece by piece, as it can one with offsets; of others it has each part in
// memory.
type inOrder struct{ *source }

// ReadAt implements [io.ReaderAt] for what comes next.
func (r inOrder) ReadAt(p []byte, offset int64) (int, error) {
	if at := r.offset(); at != offset {
		return 0, fmt.Errorf("the content is at byte %d, and is asked for what begins with byte %d", at, offset)
	}
	n, err := io.ReadFull(r.source, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// cannot says which object something is wrong with.
func (s *Storage) cannot(e *mover.Entry, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot put object %q into bucket %q: %w", e.Key, e.Bucket, err)
}

// compare says whether what is there has the content of an object.
func (s *Storage) compare(ctx context.Context, e *mover.Entry) (Outcome, error) {
	r, err := s.Open(ctx, Object{Entry: mover.Entry{Bucket: e.Bucket, Key: e.Key}, Tagged: true})
	if err != nil {
		return 0, fmt.Errorf("cannot read object %q of bucket %q, which is there: %w", e.Key, e.Bucket, err)
	}
	defer r.Close()
	if r.Size != e.Size {
		return Left, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return 0, fmt.Errorf("cannot read object %q of bucket %q, which is there: %w", e.Key, e.Bucket, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != e.SHA256 {
		return Left, nil
	}
	return Present, nil
}

// metadataPrefix begins the header of each name of metadata. Without it the client takes some names for headers of the
// request.
const metadataPrefix = "X-Amz-Meta-"

func optionsOf(e *mover.Entry) (minio.PutObjectOptions, error) {
	metadata := make(map[string]string, len(e.Metadata))
	for name, value := range e.Metadata {
		metadata[metadataPrefix+name] = asHeader(value)
	}
	options := minio.PutObjectOptions{ContentType: e.ContentType, UserMetadata: metadata, UserTags: e.Tags,
		CacheControl:       e.Headers["Cache-Control"],
		ContentDisposition: e.Headers["Content-Disposition"], ContentEncoding: e.Headers["Content-Encoding"],
		ContentLanguage: e.Headers["Content-Language"]}
	if expires := e.Headers[headerExpires]; expires != "" {
		at, err := http.ParseTime(expires)
		if err != nil {
			return options, store.Refused{Why: fmt.Sprintf("its header Expires is %q, which is no time", expires)}
		}
		options.Expires = at.In(time.UTC)
	}
	return options, nil
}

// asHeader is a value of metadata as a header has it. What no header can have came encoded, and the client has decoded
// it.
func asHeader(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return mime.BEncoding.Encode("UTF-8", value)
	}
	return value
}
