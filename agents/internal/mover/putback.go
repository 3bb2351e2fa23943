// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"maps"
	"math/big"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// unpackers put objects back at once: each has some pieces of a pack in memory.
const unpackers = 3

// putback is the way of objects back into a storage.
type putback struct {
	*Mover
	plan     *mover.Plan
	manifest *mover.Manifest
	storage  *objects.Storage
	crew     *crew
	// wanted are the numbers, in each pack of the manifest, of the small objects that the listing has, and large says how
	// many others it has. These are read again rather than held.
	wanted []*big.Int
	large  int

	written, present, left atomic.Int64
}

// restoreObjects puts the objects of a backup into a storage. What is there already is left as it is, so that it goes
// on where an earlier attempt was, and nothing that somebody has written meanwhile is lost.
func (m *Mover) restoreObjects(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	debug.SetMemoryLimit(objectsMemory)
	manifest, digest, err := m.find(ctx, plan.Backup)
	if err != nil {
		return mover.Result{}, err
	}
	if manifest.Objects == nil {
		return mover.Result{}, fail(mover.ReasonBadPlan, "the backup is none of objects")
	}
	storage, err := m.storage()
	if err != nil {
		return mover.Result{}, err
	}
	p := &putback{Mover: m, plan: plan, manifest: manifest, storage: storage,
		wanted: make([]*big.Int, len(manifest.Objects.Packs))}
	if err := p.read(ctx); err != nil {
		return mover.Result{}, err
	}
	if err := p.put(ctx); err != nil {
		return mover.Result{}, err
	}
	if got := p.written.Load() + p.present.Load() + p.left.Load(); got != manifest.Objects.Count {
		return mover.Result{}, damaged("the packs have %d objects of the %d that the listing has", got,
			manifest.Objects.Count)
	}
	m.Log.Info("the objects are there", "written", p.written.Load(), "present", p.present.Load(), "left", p.left.Load())
	result := kept(manifest, digest)
	result.Facts = maps.Clone(result.Facts)
	result.Facts["left"] = strconv.FormatInt(p.left.Load(), 10)
	return result, nil
}

// read reads the listing, and makes the buckets that are not there.
func (p *putback) read(ctx context.Context) error {
	return p.eachLine(ctx, p.plan, p.manifest, func(line *mover.Line, _ []byte) error {
		switch {
		case line.Bucket != nil:
			return ofStorage(p.storage.Ensure(ctx, line.Bucket))
		case line.Object == nil:
			return nil
		}
		for _, piece := range line.Object.Pieces {
			if _, named := packAt(p.manifest, piece.Pack); !named || piece.Number < 1 || piece.Number > batchObjects {
				return damaged("the listing has object %q of bucket %q in the pack %q, which the manifest does not name",
					line.Object.Key, line.Object.Bucket, piece.Pack)
			}
		}
		if isLarge(line.Object) {
			p.large++
			return nil
		}
		piece := line.Object.Pieces[0]
		at, _ := packAt(p.manifest, piece.Pack)
		if p.wanted[at] == nil {
			p.wanted[at] = new(big.Int)
		}
		p.wanted[at].SetBit(p.wanted[at], piece.Number, 1)
		return nil
	})
}

// isLarge says whether an object has packs of its own.
func isLarge(e *mover.Entry) bool { return e.Size > smallObject || len(e.Pieces) != 1 }

// eachLarge gives the objects that have packs of their own.
func (p *putback) eachLarge(take func(*mover.Entry) error) error {
	if p.large == 0 {
		return nil
	}
	// The packs of as many objects as there are unpackers are in memory meanwhile, and nobody waits for the next line.
	slow := *p.Mover
	slow.ahead = 1
	return slow.eachLine(p.crew.ctx, p.plan, p.manifest, func(line *mover.Line, _ []byte) error {
		if line.Object == nil || !isLarge(line.Object) {
			return nil
		}
		return take(line.Object)
	})
}

// put puts all of them.
func (p *putback) put(ctx context.Context) error {
	p.crew = newCrew(ctx)
	work := make(chan func(*pace) error)
	p.crew.have(1, func() error {
		for at, numbers := range p.wanted {
			if numbers == nil {
				continue
			}
			if err := give(p.crew.ctx, work, func(pace *pace) error {
				return p.putPack(p.manifest.Objects.Packs[at], numbers, pace)
			}); err != nil {
				return err
			}
		}
		return p.eachLarge(func(e *mover.Entry) error {
			return give(p.crew.ctx, work, func(pace *pace) error { return p.putLarge(e, pace) })
		})
	}, func() { close(work) })
	p.crew.have(unpackers, func() error {
		pace := &pace{}
		if p.plan.BytesPerSecond > 0 {
			pace.perSecond = max(1, p.plan.BytesPerSecond/unpackers)
		}
		for do := range work {
			if err := do(pace); err != nil {
				return err
			}
		}
		return nil
	}, func() {})
	return p.crew.wait()
}

// putPack puts the small objects of a pack that the listing has.
func (p *putback) putPack(part mover.Part, wanted *big.Int, pace *pace) error {
	pack, err := p.openPack(p.crew.ctx, p.manifest, part, pace)
	if err != nil {
		return err
	}
	defer pack.close()
	var content []byte
	for {
		number, size, err := pack.next()
		if errors.Is(err, io.EOF) {
			return pack.rest()
		}
		if err != nil {
			return err
		}
		if size > smallObject {
			return damaged("the pack %s has %d bytes as %s", part.Name, size, contentName(number))
		}
		if int64(cap(content)) < size {
			content = make([]byte, size)
		}
		if _, err := io.ReadFull(pack.tar, content[:size]); err != nil {
			return pack.blamed(err)
		}
		text, err := pack.entry(number)
		if err != nil {
			return err
		}
		if wanted.Bit(number) == 0 {
			continue
		}
		if err := p.putSmall(part.Name, text, content[:size]); err != nil {
			return err
		}
	}
}

func (p *putback) putSmall(name string, text, content []byte) error {
	var entry mover.Entry
	if err := json.Unmarshal(text, &entry); err != nil {
		return damaged("the pack %s says of an object what cannot be read: %v", name, err)
	}
	if entry.Size != int64(len(content)) || !sameSum(content, entry.SHA256) {
		return damaged("object %q of bucket %q is not what it was: its SHA-256 is another", entry.Key, entry.Bucket)
	}
	outcome, err := p.storage.Put(p.crew.ctx, &entry, content)
	return p.count(&entry, outcome, err)
}

// putLarge puts an object that is in packs of its own.
func (p *putback) putLarge(entry *mover.Entry, pace *pace) error {
	content := &joined{putback: p, entry: entry, pace: pace, sum: sha256.New()}
	defer content.close()
	outcome, err := p.storage.PutLarge(p.crew.ctx, entry, content)
	return p.count(entry, outcome, err)
}

// count notes what became of an object.
func (p *putback) count(entry *mover.Entry, outcome objects.Outcome, err error) error {
	switch {
	case err != nil:
		return ofStorage(err)
	case outcome == objects.Written:
		p.written.Add(1)
	case outcome == objects.Present:
		p.present.Add(1)
	default:
		p.left.Add(1)
		p.Log.Warn("there is another object of this name, which stays", "bucket", entry.Bucket, "key", entry.Key)
	}
	return nil
}

// joined is the content of a large object, out of its packs. It ends well only when it is what it was.
type joined struct {
	*putback
	entry *mover.Entry
	pace  *pace
	next  int
	pack  *packReader
	sum   hash.Hash
	size  int64
	// held is the last byte, which is given when all was right.
	held []byte
}

// Read implements [io.Reader].
func (j *joined) Read(b []byte) (int, error) {
	for {
		if j.pack == nil && j.next == len(j.entry.Pieces) {
			return j.last(b)
		}
		if j.pack == nil {
			if err := j.begin(); err != nil {
				return 0, err
			}
		}
		// The very last byte waits for the sum.
		n, err := j.pack.tar.Read(b[:min(int64(len(b)), max(1, j.entry.Size-1-j.size))])
		j.sum.Write(b[:n])
		j.size += int64(n)
		if n > 0 && j.size >= j.entry.Size {
			j.held = bytes.Clone(b[:n])
			n = 0
		}
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, io.EOF):
			if err := j.pack.rest(); err != nil {
				return 0, err
			}
			j.close()
		case err != nil:
			return 0, j.pack.blamed(err)
		}
	}
}

// begin opens the next pack.
func (j *joined) begin() (err error) {
	piece := j.entry.Pieces[j.next]
	j.next++
	at, named := packAt(j.manifest, piece.Pack)
	if !named {
		return damaged("the manifest does not name the pack %q", piece.Pack)
	}
	if j.pack, err = j.openPack(j.crew.ctx, j.manifest, j.manifest.Objects.Packs[at], j.pace); err != nil {
		return err
	}
	number, _, err := j.pack.next()
	if err == nil && number != piece.Number || errors.Is(err, io.EOF) {
		err = damaged("the pack %s has no %s", piece.Pack, contentName(piece.Number))
	}
	return err
}

// last gives what was held back, when the sum is right.
func (j *joined) last(b []byte) (int, error) {
	if j.size != j.entry.Size || hex.EncodeToString(j.sum.Sum(nil)) != j.entry.SHA256 {
		return 0, damaged("object %q of bucket %q is not what it was: its SHA-256 is another", j.entry.Key, j.entry.Bucket)
	}
	if len(j.held) == 0 {
		return 0, io.EOF
	}
	n := copy(b, j.held)
	j.held = j.held[n:]
	return n, nil
}

func (j *joined) close() {
	if j.pack != nil {
		j.pack.close()
		j.pack = nil
	}
}
