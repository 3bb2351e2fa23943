// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"

	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// packer makes packs, one after the other.
type packer struct {
	*intake
	pace *pace
	// piece is what is sent next, and content has an object that is small.
	piece, content []byte
	open           *packWriter
	// listed are the objects of the open pack, which are listed once that is whole.
	listed []mover.Entry
}

// pack makes packs of batches.
func (in *intake) pack(batches <-chan []objects.Object) (err error) {
	p := &packer{intake: in, pace: in.share(), piece: make([]byte, 0, store.PieceSize)}
	defer func() {
		if p.open != nil {
			err = errors.Join(err, p.open.abandon())
		}
	}()
	for batch := range batches {
		for _, object := range batch {
			if err := p.take(object); err != nil {
				return err
			}
		}
		if err := p.close(); err != nil {
			return err
		}
	}
	return nil
}

// take takes an object as it is by now. One that is gone was deleted before its turn.
func (p *packer) take(object objects.Object) error {
	for range mostChanges {
		reader, err := p.storage.Open(p.crew.ctx, object)
		switch {
		case errors.Is(err, store.ErrAbsent):
			return nil
		case err != nil:
			return vanished(object.Bucket, err)
		}
		if reader.Size > smallObject {
			err = p.takeLarge(reader)
		} else {
			err = p.takeSmall(reader)
		}
		_ = reader.Close()
		if !errors.Is(err, objects.ErrChanged) {
			return err
		}
		p.Log.Info("an object was replaced while it was read, and is read again", "bucket", object.Bucket, "key", object.Key)
	}
	return fail(mover.ReasonUnsteady, "object %q of bucket %q was replaced each of %d times that it was read: try again "+
		"when it is at rest", object.Key, object.Bucket, mostChanges)
}

// takeSmall takes one that fits into memory: what comes of it is in the pack as a whole or not at all.
func (p *packer) takeSmall(reader *objects.Reader) error {
	if int64(cap(p.content)) < reader.Size {
		p.content = make([]byte, reader.Size)
	}
	content := p.content[:reader.Size]
	if _, err := io.ReadFull(reader, content); err != nil {
		return ofSource(err)
	}
	if p.open == nil {
		if err := p.reserve(1, p.ownPack()); err != nil {
			return err
		}
	}
	if err := p.begin(); err != nil {
		return err
	}
	entry := reader.Entry
	sum := sha256.Sum256(content)
	entry.SHA256, entry.Pieces = hex.EncodeToString(sum[:]), nil
	to, err := p.open.add(reader.Size)
	if err != nil {
		return err
	}
	if _, err := to.Write(content); err != nil {
		return err
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if len(text) > maxMetadata {
		return tooLong(&entry, len(text), maxMetadata)
	}
	if err := p.open.describe(text); err != nil {
		return err
	}
	entry.Pieces = []mover.Piece{{Pack: p.open.name, Number: p.open.entries}}
	p.listed = append(p.listed, entry)
	return nil
}

// takeLarge takes one that has packs of its own. What comes of one that is changed meanwhile is removed.
func (p *packer) takeLarge(reader *objects.Reader) (err error) {
	if err := p.close(); err != nil {
		return err
	}
	entry, sum := reader.Entry, sha256.New()
	entry.Pieces = nil
	var parts []mover.Part
	packs := int((reader.Size + chunk - 1) / chunk)
	if err := p.reserve(packs, p.ownPack()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.release(packs, p.ownPack())
			err = errors.Join(err, p.drop(parts))
		}
	}()
	for left := reader.Size; left > 0; {
		size := min(left, chunk)
		if err := p.begin(); err != nil {
			return err
		}
		to, err := p.open.add(size)
		if err != nil {
			return err
		}
		source := &watched{from: reader}
		if _, err := io.CopyN(io.MultiWriter(to, sum), source, size); err != nil {
			if source.err != nil {
				err = ofSource(source.err)
			}
			return err
		}
		entry.Pieces = append(entry.Pieces, mover.Piece{Pack: p.open.name, Number: p.open.entries})
		part, err := p.open.end()
		if err != nil {
			return err
		}
		parts, p.open, left = append(parts, part), nil, left-size
	}
	entry.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return p.enter(parts, []mover.Entry{entry})
}

// ofSource is an error of what was read.
func ofSource(err error) error {
	if errors.Is(err, objects.ErrChanged) {
		return err
	}
	return ofStorage(err)
}

// drop gives up the open pack, and removes those that nobody will name.
func (p *packer) drop(parts []mover.Part) error {
	if p.open == nil && len(parts) == 0 {
		return nil
	}
	ctx, cancel := p.cleaning(p.crew.ctx)
	defer cancel()
	var errs []error
	if p.open != nil {
		errs = append(errs, p.open.abandon())
		p.open = nil
	}
	for _, part := range parts {
		errs = append(errs, p.repository.Remove(ctx, path.Dir(p.Backup.Key)+"/"+part.Name))
	}
	return errors.Join(errs...)
}

// begin has a pack open.
func (p *packer) begin() (err error) {
	if p.open == nil {
		p.open, err = p.beginPack(p.crew.ctx, int(p.numbers.Add(1)), p.compression, p.piece, p.pace)
	}
	return err
}

// close makes the open pack whole, and lists what is in it.
func (p *packer) close() error {
	if p.open == nil {
		return nil
	}
	part, err := p.open.end()
	if err != nil {
		return err
	}
	listed := p.listed
	p.open, p.listed = nil, nil
	return p.enter([]mover.Part{part}, listed)
}

// enter lists objects whose packs are whole.
func (in *intake) enter(parts []mover.Part, entries []mover.Entry) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.manifest.Packs = append(in.manifest.Packs, parts...)
	for i := range entries {
		in.manifest.Count++
		in.manifest.Read++
		in.manifest.Size += entries[i].Size
		in.manifest.ReadBytes += entries[i].Size
		if err := in.listing.add(mover.Line{Object: &entries[i]}); err != nil {
			return err
		}
	}
	return nil
}

// factsOf is what is told of a backup of objects.
func factsOf(o *mover.ObjectsManifest) map[string]string {
	facts := map[string]string{"buckets": strconv.Itoa(o.Buckets), "objects": strconv.FormatInt(o.Count, 10),
		"objectsRead": strconv.FormatInt(o.Read, 10),
		"bytesRead":   strconv.FormatInt(o.ReadBytes, 10)}
	if o.Base != "" {
		facts["base"] = o.Base
	}
	return facts
}
