// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"

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
	if a.Objects != nil {
		// What was deleted while this backup was made has left packs, in case that it needs them.
		if err := a.sweep(ctx, path.Dir(a.Backup.Key)); err != nil {
			a.Log.Warn("packs that no backup needs stay", "error", err.Error())
		}
	}
	return kept(manifest, digest), nil
}

// make makes a backup, of which nobody sees anything before all of it is there.
func (a *attempt) make(ctx context.Context) (*mover.Manifest, string, error) {
	packs := removePacks
	if a.Objects != nil {
		// One that was whole and is damaged may have some that others name.
		packs = keepPacks
	}
	if err := a.clearRuns(ctx, a.Backup.Key, a.run, packs); err != nil {
		return nil, "", err
	}
	manifest := &mover.Manifest{FormatVersion: mover.PlainFormatVersion, Key: a.Backup.Key,
		Compression: a.Backup.Compression, StartTime: a.Now().UTC()}
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
	take := a.takeAll
	switch {
	case a.Objects != nil:
		take = a.takeObjects
	case a.Files != nil:
		take = a.takeFiles
	case len(a.Streams) > 0:
		take = a.takeStreams
	}
	if err := take(ctx, manifest); err != nil {
		return nil, "", err
	}
	manifest.EndTime = a.Now().UTC()
	digest, err := a.seal(ctx, manifest)
	return manifest, digest, err
}

// takeAll takes what one run of the command writes.
func (a *attempt) takeAll(ctx context.Context, manifest *mover.Manifest) error {
	all, err := a.carry(ctx, a.Mover, manifest.Compression, 0)
	if err != nil {
		return err
	}
	manifest.Parts, manifest.RawSize, manifest.RawSHA256 = all.parts, all.rawSize, all.rawSHA256
	manifest.Facts, err = a.facts(ctx, a.Facts)
	return err
}

// taken is what one run of the command has come to.
type taken struct {
	parts     []mover.Part
	rawSize   int64
	rawSHA256 string
}

// carry runs the command as a mover does, and keeps what it writes, in parts after some that there are. Only when it
// has ended well are there parts.
func (a *attempt) carry(ctx context.Context, its *Mover, compression string, after int) (taken, error) {
	up := a.uploader(ctx, &pace{perSecond: a.BytesPerSecond})
	defer up.close()
	up.after = after
	packed, err := pack(up, compression, a.passphrase)
	if err != nil {
		return taken{}, err
	}
	go a.watch(up.ctx, up.cancel)
	// What ends the upload ends the command, also while that says nothing.
	t, err := its.begin(up.ctx, a.Command, fromOutput)
	if err != nil {
		return taken{}, err
	}
	defer t.data.Close()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(sum, packed), t.data)
	if err != nil {
		t.kill()
	}
	ended := t.end()
	switch {
	case up.ctx.Err() != nil:
		return taken{}, context.Cause(up.ctx)
	case err != nil:
		return taken{}, fmt.Errorf("cannot keep what %s writes: %w", t.name, err)
	case ended != nil:
		return taken{}, ended
	case size == 0:
		return taken{}, fail(mover.ReasonCommandFailed, "%s ended with exit code 0 and wrote nothing", t.name)
	}
	if err := packed.Close(); err != nil {
		return taken{}, err
	}
	parts, err := up.end()
	return taken{parts: parts, rawSize: size, rawSHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
