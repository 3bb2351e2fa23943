// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// headerSize is enough of encrypted data to know whether a passphrase opens it.
const headerSize = 128 << 10

// recall reads what is needed to make the objects of backups again that nobody speaks of: as many as fit into a result,
// in the order of their keys. A backup that cannot be restored as it is keeps no other one from being told, and a
// repository that does not answer tells nothing.
func (m *Mover) recall(ctx context.Context, catalogue *mover.Catalogue) (mover.Result, error) {
	var keys []string
	known, after := newFindings(catalogue).others, ""
	if catalogue != nil {
		after = catalogue.After
	}
	err := m.eachFolder(ctx, catalogue, func(key string, kind folderKind, _ int64) {
		if _, is := known[mover.KeyDigest(key)]; !is && key > after && kind != shared {
			keys = append(keys, key)
		}
	})
	if err != nil {
		return mover.Result{}, err
	}
	slices.Sort(keys)
	page := &mover.Recall{}
	packed, err := page.Pack()
	if err != nil {
		return mover.Result{}, err
	}
	for i, key := range keys {
		record, failure, err := m.record(ctx, key)
		if err != nil {
			return mover.Result{}, err
		}
		next, text, err := with(page, record, failure, len(keys)-i-1)
		if err != nil {
			return mover.Result{}, err
		}
		if len(text) > mover.MaxRecall && i > 0 {
			break
		}
		if len(text) > mover.MaxRecall {
			// Alone on its page, it would keep all that come after it from being read.
			next, text, err = with(page, nil, &mover.Failure{Key: key, Reason: mover.ReasonUnsupported,
				Message: "what there is to say of it is too long for the result of a mover"}, len(keys)-i-1)
			if err != nil {
				return mover.Result{}, err
			}
		}
		page, packed = next, text
	}
	return mover.Result{Recall: packed}, nil
}

// with is a page with one more backup on it, and how that is packed.
func with(page *mover.Recall, record *mover.Record, failure *mover.Failure, left int) (*mover.Recall, []byte, error) {
	next := &mover.Recall{Records: slices.Clone(page.Records), Failures: slices.Clone(page.Failures), Left: left}
	if record != nil {
		next.Records, next.Last = append(next.Records, *record), record.Key
	} else {
		next.Failures, next.Last = append(next.Failures, *failure), failure.Key
	}
	packed, err := next.Pack()
	return next, packed, err
}

// maxFailure is how many bytes the message of a Failure has at most.
const maxFailure = 200

// record reads one backup, or says why there is none in the folder. An error is of the repository.
func (m *Mover) record(ctx context.Context, key string) (*mover.Record, *mover.Failure, error) {
	manifest, digest, err := m.find(ctx, &mover.Backup{Key: key})
	var origin mover.Origin
	if err == nil {
		origin, err = m.origin(ctx, manifest)
	}
	if err == nil {
		err = m.opens(ctx, manifest)
	}
	var known *failure
	switch {
	case err != nil && (ctx.Err() != nil || !errors.As(err, &known)):
		return nil, nil, err
	case err != nil:
		return nil, &mover.Failure{Key: key, Reason: known.reason,
			Message: shortened(m.hide.from(known.message), maxFailure)}, nil
	}
	told := kept(manifest, digest)
	return &mover.Record{Key: key, Digest: digest, Files: manifest.Files != nil, Size: told.Size, RawSize: told.RawSize,
		Facts: told.Facts, Streams: told.Streams,
		Compression: manifest.Compression, StartTime: manifest.StartTime, EndTime: manifest.EndTime, Origin: origin}, nil, nil
}

// origin reads the metadata of a backup.
func (m *Mover) origin(ctx context.Context, manifest *mover.Manifest) (origin mover.Origin, err error) {
	text, err := m.metadata(ctx, manifest)
	if err != nil {
		return origin, err
	}
	if err := json.Unmarshal(text, &origin); err != nil {
		return origin, damaged("the part %s cannot be read: %v", manifest.Metadata.Name, err)
	}
	return origin, nil
}

// opens says whether the passphrase of the repository is that of a backup, by the beginning of its data: all streams
// have the same.
func (m *Mover) opens(ctx context.Context, manifest *mover.Manifest) error {
	if manifest.Encryption == "" {
		return nil
	}
	if manifest.Files != nil {
		r, err := m.ofFiles(manifest)
		if err == nil {
			_, err = r.do(ctx, "", "cat", "--no-lock", "config")
		}
		return err
	}
	first := manifest.Parts[0]
	head, err := m.repository.ReadRange(ctx, manifest.Key+"/"+first.Name, 0, int(min(first.Size, headerSize)))
	if errors.Is(err, store.ErrAbsent) {
		return damaged("the part %s is missing", first.Name)
	}
	if err != nil {
		return err
	}
	data, err := unpack(bytes.NewReader(head),
		&mover.Manifest{Encryption: manifest.Encryption, Compression: mover.CompressionNone}, m.passphrase)
	if err != nil {
		return err
	}
	return data.Close()
}
