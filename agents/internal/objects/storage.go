// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// Versioning of a bucket, as S3 says it.
const (
	versioningEnabled   = "Enabled"
	versioningSuspended = "Suspended"
)

// Storage is one that speaks S3. It is safe for concurrent use.
type Storage struct {
	client   *minio.Client
	o        store.S3Options
	patience store.Patience
}

// FromEnv is the storage that the variables of an environment name. Nothing is asked yet. The error is a store.Refused.
func FromEnv(env []string, p store.Patience) (*Storage, error) {
	value := func(name string) string {
		for _, assignment := range slices.Backward(env) {
			if v, is := strings.CutPrefix(assignment, name+"="); is {
				return v
			}
		}
		return ""
	}
	o := store.S3Options{Endpoint: value(mover.ObjectsEndpoint), Region: value(mover.ObjectsRegion),
		AccessKey:  value(mover.ObjectsAccessKey),
		SecretKey:  value(mover.ObjectsSecretKey),
		Addressing: store.Addressing(cmp.Or(value(mover.ObjectsAddressing), string(store.AddressingPath)))}
	if o.Endpoint == "" || o.AccessKey == "" || o.SecretKey == "" {
		return nil, store.Refused{Why: fmt.Sprintf("the storage of the objects is not said: %s, %s and %s have to be there",
			mover.ObjectsEndpoint, mover.ObjectsAccessKey, mover.ObjectsSecretKey)}
	}
	if file := value(mover.ObjectsCAFile); file != "" {
		var err error
		if o.CA, err = os.ReadFile(file); err != nil {
			return nil, store.Refused{Why: fmt.Sprintf("the authority of the storage of the objects cannot be read: %v", err)}
		}
	}
	client, _, err := store.NewClient(o)
	return &Storage{client: client, o: o, patience: p}, err
}

// ErrBucketAbsent says that there is no such bucket.
type ErrBucketAbsent struct{ Bucket string }

// Error implements error.
func (e ErrBucketAbsent) Error() string { return fmt.Sprintf("there is no bucket %q", e.Bucket) }

// said is an error of the storage as packages of ours tell them apart: store.ErrAbsent, store.ErrExists for a condition
// that does not hold, and store.Refused for what is not to be asked again, which has the sentence of the storage.
func (s *Storage) said(bucket string, err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch answer.Code {
	case "NoSuchBucket":
		return store.Refused{Why: ErrBucketAbsent{bucket}.Error()}
	case "NoSuchVersion":
		return store.ErrAbsent
	}
	told := s.o.Said(err)
	sentence := strings.TrimSuffix(answer.Message, ".")
	if errors.As(told, new(store.Refused)) && !strings.Contains(told.Error(), sentence) {
		return store.Refused{Why: told.Error() + ": " + sentence}
	}
	return told
}

// lacks says whether an error means that a storage, or a bucket of it, has no such feature.
func lacks(err error) bool {
	answer := minio.ToErrorResponse(err)
	return answer.StatusCode == http.StatusNotImplemented ||
		slices.Contains([]string{"ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration",
			"VersioningNotConfigured", "MethodNotAllowed", "NoSuchTagSet"}, answer.Code)
}

// Buckets are those that the account sees, by name.
func (s *Storage) Buckets(ctx context.Context) ([]mover.Bucket, error) {
	infos, err := store.Ask(ctx, s.patience, func(ctx context.Context) ([]minio.BucketInfo, error) {
		infos, err := s.client.ListBuckets(ctx)
		return infos, s.said("", err)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the buckets: %w", err)
	}
	buckets := make([]mover.Bucket, 0, len(infos))
	for _, info := range infos {
		bucket, err := s.bucket(ctx, info.Name)
		if err != nil {
			return nil, fmt.Errorf("cannot read how bucket %q is kept: %w", info.Name, err)
		}
		buckets = append(buckets, bucket)
	}
	slices.SortFunc(buckets, func(a, b mover.Bucket) int { return strings.Compare(a.Name, b.Name) })
	return buckets, nil
}

// bucket reads what is kept of a bucket beside its objects.
func (s *Storage) bucket(ctx context.Context, name string) (mover.Bucket, error) {
	return store.Ask(ctx, s.patience, func(ctx context.Context) (mover.Bucket, error) {
		b := mover.Bucket{Name: name}
		versioning, err := s.client.GetBucketVersioning(ctx, name)
		if err != nil && !lacks(err) {
			return b, s.said(name, err)
		}
		b.Versioning = versioning.Status
		lock, _, _, _, err := s.client.GetObjectLockConfig(ctx, name)
		if err != nil && !lacks(err) {
			return b, s.said(name, err)
		}
		b.Lock = lock == "Enabled"
		return b, nil
	})
}

// Object is what a listing says of one.
type Object struct {
	mover.Entry
	// Tagged says that the listing told the tags.
	Tagged bool
}

// List gives the objects of a bucket, their current versions alone. What comes and goes meanwhile is there or not. A
// listing that breaks off goes on where it was.
func (s *Storage) List(ctx context.Context, bucket mover.Bucket) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		last, ordered, since := "", true, time.Now()
		for {
			err := s.page(ctx, bucket, last, func(o Object) bool {
				ordered = ordered && o.Key > last
				last, since = o.Key, time.Now()
				return yield(o, nil)
			})
			switch {
			case err == nil || errors.Is(err, errEnough):
				return
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			case !final(err) && (last == "" || ordered) && time.Since(since) < s.patience.Total:
				s.patience.Log.Warn("the storage is asked again", "bucket", bucket.Name, "error", err.Error())
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
				continue
			}
			yield(Object{}, fmt.Errorf("cannot list bucket %q: %w", bucket.Name, err))
			return
		}
	}
}

// pause is between two questions where one goes on that broke off.
const pause = time.Second

// errEnough ends a listing of which nobody wants more.
var errEnough = errors.New("it is enough")

// final says whether it is of no use to ask again.
func final(err error) bool {
	return errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrExists) || errors.As(err, new(store.Refused))
}

// page lists the objects after a key until there are no more, or it breaks off.
func (s *Storage) page(ctx context.Context, bucket mover.Bucket, after string, take func(Object) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Of a bucket with versions each object has the name of the version, by which it is known again and read.
	versions := bucket.Versioning == versioningEnabled || bucket.Versioning == versioningSuspended
	options := minio.ListObjectsOptions{Recursive: true, StartAfter: after, WithVersions: versions, WithMetadata: true}
	for info := range s.client.ListObjects(ctx, bucket.Name, options) {
		switch {
		case info.Err != nil:
			return s.said(bucket.Name, info.Err)
		case info.IsDeleteMarker || versions && !info.IsLatest:
			continue
		}
		o := Object{Tagged: info.UserMetadata != nil,
			Entry: mover.Entry{Bucket: bucket.Name, Key: info.Key, ETag: info.ETag, Size: info.Size,
				Modified: info.LastModified.UTC()}}
		if versions && info.VersionID != "null" {
			o.Version = info.VersionID
		}
		if len(info.UserTags) > 0 {
			o.Tags = info.UserTags
		}
		if !take(o) {
			return errEnough
		}
	}
	return nil
}

// Tags are those of an object; store.ErrAbsent when it is gone.
func (s *Storage) Tags(ctx context.Context, e *mover.Entry) (map[string]string, error) {
	return store.Ask(ctx, s.patience, func(ctx context.Context) (map[string]string, error) {
		tags, err := s.client.GetObjectTagging(ctx, e.Bucket, e.Key, minio.GetObjectTaggingOptions{VersionID: e.Version})
		if err != nil {
			if lacks(err) {
				return nil, nil
			}
			return nil, s.said(e.Bucket, err)
		}
		if all := tags.ToMap(); len(all) > 0 {
			return all, nil
		}
		return nil, nil
	})
}
