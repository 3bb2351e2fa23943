// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// find reads the manifest that is meant, and sees that all of its files are there, before anything is touched.
func (m *Mover) find(ctx context.Context, b *mover.Backup) (*mover.Manifest, string, error) {
	manifest, digest, err := m.manifest(ctx, b.Key)
	if err != nil {
		return nil, "", err
	}
	if b.Digest != "" && b.Digest != digest {
		return nil, "", damaged("the manifest is not what it was: its digest is %s, and was %s", digest, b.Digest)
	}
	return manifest, digest, m.whole(ctx, manifest)
}

// restore gives a backup to a command. Where the data is damaged the command is killed while its input is still open,
// so that it never takes what came for the whole.
func (m *Mover) restore(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	manifest, digest, err := m.find(ctx, plan.Backup)
	if err != nil {
		return mover.Result{}, err
	}
	if manifest.Objects != nil {
		return mover.Result{}, fail(mover.ReasonBadPlan, "the backup is of objects, and no command takes these")
	}
	if (manifest.Files != nil) != (plan.Files != nil) {
		return mover.Result{}, fail(mover.ReasonBadPlan, "the backup is of files, or the plan, and not both")
	}
	if manifest.Files != nil {
		return kept(manifest, digest), m.restoreFiles(ctx, plan, manifest)
	}
	if manifest, err = streamOf(manifest, plan.Backup.Stream); err != nil {
		return mover.Result{}, err
	}
	data, err := m.contents(ctx, plan, manifest)
	if err != nil {
		return mover.Result{}, err
	}
	defer data.Close()
	t, err := m.with(told(manifest.Facts)).begin(ctx, plan.Command, toInput)
	if err != nil {
		return mover.Result{}, err
	}
	// By then the command has ended, or all was right.
	defer t.data.Close()
	if err := t.feed(data); err != nil {
		t.kill()
		_ = t.end()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return mover.Result{}, err
	}
	if err := t.data.Close(); err != nil {
		return mover.Result{}, err
	}
	if err := t.end(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return mover.Result{}, err
	}
	return kept(manifest, digest), nil
}

// inspect says whether a backup is as it was written.
func (m *Mover) inspect(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	manifest, digest, err := m.find(ctx, plan.Backup)
	if err != nil {
		return mover.Result{}, err
	}
	if !plan.Verify {
		return kept(manifest, digest), nil
	}
	if manifest.Files != nil {
		return kept(manifest, digest), m.verifyFiles(ctx, plan, manifest)
	}
	for _, one := range streamsOf(manifest) {
		if err := m.verify(ctx, plan, one); err != nil {
			return mover.Result{}, err
		}
	}
	return kept(manifest, digest), m.verifyPacks(ctx, plan, manifest)
}

// verify reads all of the data of a stream.
func (m *Mover) verify(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest) error {
	data, err := m.contents(ctx, plan, manifest)
	if err != nil {
		return err
	}
	defer data.Close()
	_, err = io.Copy(io.Discard, data)
	return err
}

// contents are the data of a backup as its command wrote it, which is checked while it is read.
func (m *Mover) contents(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest) (*counted, error) {
	if err := m.checkMetadata(ctx, manifest); err != nil {
		return nil, err
	}
	down := m.download(ctx, manifest, &pace{perSecond: plan.BytesPerSecond})
	data, err := unpack(down, manifest, m.passphrase)
	if err != nil {
		down.close()
		return nil, err
	}
	return &counted{from: data, down: down, manifest: manifest, sum: sha256.New()}, nil
}

func (m *Mover) checkMetadata(ctx context.Context, manifest *mover.Manifest) error {
	_, err := m.metadata(ctx, manifest)
	return err
}

// metadata of a backup, as it was written.
func (m *Mover) metadata(ctx context.Context, manifest *mover.Manifest) ([]byte, error) {
	text, err := m.read(ctx, manifest.Key+"/"+manifest.Metadata.Name, maxMetadata)
	if errors.Is(err, store.ErrAbsent) {
		return nil, damaged("the part %s is missing", manifest.Metadata.Name)
	}
	if err == nil && !sameSum(text, manifest.Metadata.SHA256) {
		err = damaged("the part %s is not what it was: its SHA-256 is another", manifest.Metadata.Name)
	}
	return text, err
}

// counted ends well only when all the bytes that the command of the backup wrote have come.
type counted struct {
	from     io.ReadCloser
	down     *downloader
	manifest *mover.Manifest
	size     int64
	sum      hash.Hash
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.size += int64(n)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && (c.size != c.manifest.RawSize ||
		hex.EncodeToString(c.sum.Sum(nil)) != c.manifest.RawSHA256) {
		return n, damaged("the data is not what the command wrote: %d bytes of %d, or others", c.size, c.manifest.RawSize)
	}
	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	defer c.down.close()
	return c.from.Close()
}
