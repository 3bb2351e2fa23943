// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
)

var _ Repository = (*S3)(nil)

// fullCodes are the words of storages that have no room.
var fullCodes = []string{"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage",
	"InsufficientCapacity", "NoSpaceLeft"}

// answered is an error of the storage, as told has it, but for one that says that there is no room.
func (s *S3) answered(err error) error {
	answer := minio.ToErrorResponse(err)
	if answer.StatusCode == http.StatusInsufficientStorage || slices.Contains(fullCodes, answer.Code) {
		return Full{fmt.Sprintf("%s has no room for it: %s", s.o.Endpoint, answer.Code)}
	}
	return s.told(err)
}

// isGone says whether there is nothing under a name, or no such upload.
func isGone(err error) bool {
	answer := minio.ToErrorResponse(err)
	return answer.Code == "NoSuchKey" || answer.Code == "NoSuchUpload"
}

func (s *S3) core() minio.Core { return minio.Core{Client: s.client} }

func (s *S3) key(name string) string { return beneath(s.o.Prefix, name) }

// Replace implements Repository.
func (s *S3) Replace(ctx context.Context, name string, content []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	return s.answered(s.send(ctx, name, bytes.NewReader(content), int64(len(content)),
		minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true, DisableMultipart: true}))
}

// ReadRange implements Repository.
func (s *S3) ReadRange(ctx context.Context, name string, offset int64, size int) ([]byte, error) {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(offset, offset+int64(size)-1); err != nil {
		return nil, err
	}
	body, err := s.open(ctx, name, options)
	if err != nil {
		if errors.As(err, new(Refused)) && strings.HasSuffix(err.Error(), "InvalidRange") {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	defer body.Close()
	data := make([]byte, size)
	switch _, err := io.ReadFull(body, data); {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, s.shorter(ctx, name, offset+int64(size))
	case err != nil:
		return nil, s.told(err)
	}
	return data, nil
}

// shorter says whether an object ends before an offset, or its transfer did.
func (s *S3) shorter(ctx context.Context, name string, end int64) error {
	info, err := s.client.StatObject(ctx, s.o.Bucket, s.key(name), minio.StatObjectOptions{})
	if err != nil {
		return s.told(err)
	}
	if info.Size < end {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%s broke off", s.o.Endpoint)
}

// Remove implements Repository.
func (s *S3) Remove(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := s.client.RemoveObject(ctx, s.o.Bucket, s.key(name), minio.RemoveObjectOptions{}); err != nil &&
		!isGone(err) {
		return s.told(err)
	}
	return nil
}

// Clear implements Repository.
func (s *S3) Clear(ctx context.Context, folder string) error {
	if err := checkName(folder); err != nil {
		return err
	}
	for object, err := range s.Objects(ctx, folder) {
		if err != nil {
			return err
		}
		if err := s.Remove(ctx, object.Name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for upload := range s.client.ListIncompleteUploads(ctx, s.o.Bucket, s.key(folder)+"/", true) {
		if upload.Err != nil {
			return s.told(upload.Err)
		}
		if err := s.core().AbortMultipartUpload(ctx, s.o.Bucket, upload.Key, upload.UploadID); err != nil && !isGone(err) {
			return s.told(err)
		}
	}
	return nil
}

// AbandonOf implements Repository. There are storages that tell of uploads only when they are asked for one object.
func (s *S3) AbandonOf(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := s.client.RemoveIncompleteUpload(ctx, s.o.Bucket, s.key(name)); err != nil && !isGone(err) {
		return s.told(err)
	}
	return nil
}

// Objects implements Repository.
func (s *S3) Objects(ctx context.Context, folder string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		prefix := beneath(s.o.Prefix, "")
		if folder != "" {
			prefix = s.key(folder) + "/"
		}
		for object := range s.client.ListObjects(ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if object.Err != nil {
				yield(Object{}, s.told(object.Err))
				return
			}
			if name := strings.TrimPrefix(object.Key, beneath(s.o.Prefix, "")); IsName(name) &&
				!yield(Object{Name: name, Size: object.Size}, nil) {
				return
			}
		}
	}
}

// Free implements Repository: nobody can ask a bucket.
func (s *S3) Free(context.Context) (*int64, error) { return nil, nil }

// s3Upload is a multipart upload.
type s3Upload struct {
	store    *S3
	name, id string

	mu     sync.Mutex
	pieces map[int]minio.CompletePart
	size   int64
}

// Begin implements Repository.
func (s *S3) Begin(ctx context.Context, name string) (Upload, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	id, err := s.core().NewMultipartUpload(ctx, s.o.Bucket, s.key(name),
		minio.PutObjectOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return nil, s.answered(err)
	}
	return &s3Upload{store: s, name: name, id: id, pieces: map[int]minio.CompletePart{}}, nil
}

// Send implements Upload. The storage compares the sum before it keeps what came.
func (u *s3Upload) Send(ctx context.Context, number int, data []byte) error {
	sum := sha256.Sum256(data)
	kept, err := u.store.core().PutObjectPart(ctx, u.store.o.Bucket, u.store.key(u.name), u.id, number,
		bytes.NewReader(data), int64(len(data)),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum[:]), DisableContentSha256: true})
	if err != nil {
		return u.store.answered(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, again := u.pieces[number]; !again {
		u.size += int64(len(data))
	}
	u.pieces[number] = minio.CompletePart{PartNumber: number, ETag: kept.ETag}
	return nil
}

// Finish implements Upload.
func (u *s3Upload) Finish(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	pieces := make([]minio.CompletePart, 0, len(u.pieces))
	for number := 1; number <= len(u.pieces); number++ {
		pieces = append(pieces, u.pieces[number])
	}
	_, err := u.store.core().CompleteMultipartUpload(ctx, u.store.o.Bucket, u.store.key(u.name), u.id, pieces,
		minio.PutObjectOptions{})
	if err != nil && isGone(err) {
		// The answer to an earlier request may have been lost.
		if info, err := u.store.client.StatObject(ctx, u.store.o.Bucket, u.store.key(u.name),
			minio.StatObjectOptions{}); err == nil && info.Size == u.size {
			return nil
		}
	}
	return u.store.answered(err)
}

// Abandon implements Upload.
func (u *s3Upload) Abandon(ctx context.Context) error {
	if err := u.store.core().AbortMultipartUpload(ctx, u.store.o.Bucket, u.store.key(u.name), u.id); err != nil &&
		!isGone(err) {
		return u.store.told(err)
	}
	return nil
}
