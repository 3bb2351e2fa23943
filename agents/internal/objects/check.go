// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/zeroinfra/agents/internal/store"
)

// Damaged says that a storage that serves does not give an object as it was put there.
type Damaged struct{ Why string }

// Error implements error.
func (d Damaged) Error() string { return d.Why }

// sumOfContent is an ETag that is the MD5 of the content, as that of an object which came in one piece and is not
// encrypted. Others are of the parts.
var sumOfContent = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Check reads an object to its end, as a client does. It is nil for one that is what the storage says it is, and for
// one that was deleted or replaced meanwhile; a Damaged when the storage serves and does not give it.
func (s *Storage) Check(ctx context.Context, o Object) error {
	r, err := s.Open(ctx, o)
	if errors.Is(err, store.ErrAbsent) {
		return nil
	}
	if err != nil {
		return s.blame(ctx, o, err)
	}
	defer r.Close()
	sum := md5.New()
	if _, err = io.Copy(sum, r); errors.Is(err, ErrChanged) {
		return nil
	}
	if err != nil {
		return s.blame(ctx, o, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); sumOfContent.MatchString(r.ETag) && !r.encrypted && got != r.ETag {
		return Damaged{fmt.Sprintf("object %q of bucket %q has the MD5 %s, and had %s", o.Key, o.Bucket, got, r.ETag)}
	}
	return nil
}

// blame tells an object that cannot be read from a storage that cannot be asked.
func (s *Storage) blame(ctx context.Context, o Object, err error) error {
	why := fmt.Errorf("object %q of bucket %q cannot be read: %w", o.Key, o.Bucket, err)
	if ctx.Err() != nil || errors.As(err, new(store.Refused)) {
		return why
	}
	_, silent := store.Ask(ctx, s.patience, func(ctx context.Context) (bool, error) {
		there, err := s.client.BucketExists(ctx, o.Bucket)
		return there, s.said(o.Bucket, err)
	})
	if silent != nil {
		return why
	}
	return Damaged{why.Error()}
}
