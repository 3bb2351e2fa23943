// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// backup makes one, or finds that an earlier attempt has made it.
func (m *Mover) backup(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	a := m.newAttempt(plan)
	if err := a.begin(ctx); err != nil {
		return mover.Result{}, err
	}
	manifest, digest, err := a.complete(ctx)
	if err == nil && manifest != nil {
		a.Log.Info("an earlier attempt has made the backup", "key", a.Backup.Key)
		return kept(manifest, digest), nil
	}
	if err == nil {
		manifest, digest, err = a.make(ctx)
	}
	if err != nil {
		return mover.Result{}, a.undo(ctx, err)
	}
	return kept(manifest, digest), nil
}

// make makes a backup, of which nobody sees anything before all of it is there.
func (a *attempt) make(ctx context.Context) (*mover.Manifest, string, error) {
	if err := a.clearRuns(ctx, a.Backup.Key, a.run); err != nil {
		return nil, "", err
	}
	manifest := &mover.Manifest{FormatVersion: mover.FormatVersion, Key: a.Backup.Key, Compression: a.Backup.Compression, StartTime: a.Now().UTC()}
	if manifest.Compression == "" {
		manifest.Compression = mover.CompressionZstd
	}
	if a.Repository.Encrypted {
		manifest.Encryption = mover.EncryptionAge
	}
	var err error
	if manifest.Metadata, err = a.keepMetadata(ctx); err != nil {
		return nil, "", err
	}
	if err := a.carry(ctx, manifest); err != nil {
		return nil, "", err
	}
	if manifest.Facts, err = a.facts(ctx, a.Facts); err != nil {
		return nil, "", err
	}
	manifest.EndTime = a.Now().UTC()
	digest, err := a.seal(ctx, manifest)
	return manifest, digest, err
}

// carry runs the command and keeps what it writes. Only when it has ended well are there parts.
func (a *attempt) carry(ctx context.Context, manifest *mover.Manifest) error {
	up := a.uploader(ctx, &pace{perSecond: a.BytesPerSecond})
	defer up.close()
	packed, err := pack(up, manifest.Compression, a.passphrase)
	if err != nil {
		return err
	}
	go a.watch(up.ctx, up.cancel)
	// What ends the upload ends the command, also while that says nothing.
	t, err := a.Mover.begin(up.ctx, a.Command, fromOutput)
	if err != nil {
		return err
	}
	defer t.data.Close()
	sum := sha256.New()
	manifest.RawSize, err = io.Copy(io.MultiWriter(sum, packed), t.data)
	if err != nil {
		t.kill()
	}
	ended := t.end()
	if up.ctx.Err() != nil {
		return context.Cause(up.ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot keep what %s writes: %w", t.name, err)
	}
	if ended != nil {
		return ended
	}
	if manifest.RawSize == 0 {
		return fail(mover.ReasonCommandFailed, "%s ended with exit code 0 and wrote nothing", t.name)
	}
	manifest.RawSHA256 = hex.EncodeToString(sum.Sum(nil))
	if err := packed.Close(); err != nil {
		return err
	}
	manifest.Parts, err = up.end()
	return err
}
