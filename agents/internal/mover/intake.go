// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// objectsMemory is where the collector works harder while objects are carried: a piece and a small object of each
	// packer, and pieces of the listing.
	objectsMemory = 160 << 20
	// packers make packs at once, and lookers ask for tags.
	packers = 4
	lookers = 8
	// smallObject is how many bytes an object has at most that is read as a whole, and goes into a pack with others.
	smallObject = 8 << 20
	// batchBytes and batchObjects bound what is in one pack, and chunk is how much of a large object is in one of its
	// packs.
	batchBytes   = 64 << 20
	batchObjects = 4096
	chunk        = 256 << 20
	// mostChanges is how often an object may be another one each time that it is read.
	mostChanges = 5
	// packText is how many bytes of a manifest a pack takes beside its name, at most, and otherText how many are left for
	// all that is none.
	packText  = 144
	otherText = 1 << 20
)

// intake is what one backup of objects takes.
type intake struct {
	*attempt
	storage *objects.Storage
	known   *known
	listing *listing
	crew    *crew
	// compression of the packs.
	compression string
	numbers     atomic.Int64

	mu       sync.Mutex
	manifest mover.ObjectsManifest
	// packs and text are how many packs the manifest is to name so far, and how many bytes these take of it.
	packs, text int
}

// takeObjects takes the objects of a storage: those that the latest backup has as they are now are named, all others
// are read.
func (a *attempt) takeObjects(ctx context.Context, manifest *mover.Manifest) error {
	debug.SetMemoryLimit(objectsMemory)
	storage, err := a.storage()
	if err != nil {
		return err
	}
	if err := a.elsewhere(ctx, storage); err != nil {
		return err
	}
	up := a.uploader(ctx, a.share())
	defer up.close()
	go a.watch(up.ctx, up.cancel)
	known, err := a.base(up.ctx)
	if err != nil {
		return cause(up.ctx, err)
	}
	in := &intake{attempt: a, storage: storage, known: known, compression: manifest.Compression}
	if in.listing, err = newListing(up, manifest.Compression, a.passphrase); err != nil {
		return err
	}
	if err := in.take(up.ctx); err != nil {
		return cause(up.ctx, err)
	}
	if err := in.nameKnown(up.ctx); err != nil {
		return cause(up.ctx, err)
	}
	if err := in.listing.packed.Close(); err != nil {
		return err
	}
	if manifest.Parts, err = up.end(); err != nil {
		return err
	}
	slices.SortFunc(in.manifest.Packs, func(a, b mover.Part) int { return strings.Compare(a.Name, b.Name) })
	manifest.FormatVersion, manifest.Objects, manifest.Facts = mover.ObjectsFormatVersion, &in.manifest,
		factsOf(&in.manifest)
	manifest.RawSize, manifest.RawSHA256 = in.listing.size, hex.EncodeToString(in.listing.sum.Sum(nil))
	return nil
}

// elsewhere refuses a storage that has the repository itself, under whatever address: what is written would have to be
// read, without end.
func (a *attempt) elsewhere(ctx context.Context, storage *objects.Storage) error {
	if a.Repository.Type != mover.TypeS3 {
		return nil
	}
	mark := path.Join(a.Repository.Prefix, a.name(mover.MarkName))
	reader, err := storage.Open(ctx, objects.Object{
		Entry: mover.Entry{Bucket: a.Repository.Bucket, Key: strings.Trim(mark, "/")}, Tagged: true})
	if err != nil {
		// Whatever else is wrong with the storage is found out when it is read.
		return nil
	}
	defer reader.Close()
	text, err := io.ReadAll(io.LimitReader(reader, maxMark))
	var there mover.Mark
	if err != nil || json.Unmarshal(text, &there) != nil || there != a.mark {
		return nil
	}
	return fail(mover.ReasonBadPlan, "bucket %q of the storage is the one that the repository is in: keep its backups "+
		"in another storage", a.Repository.Bucket)
}

// cause is why a context ended, where that is why something failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// storage is the one that the environment names. What it says is of the middleware, and not of the repository.
func (m *Mover) storage() (*objects.Storage, error) {
	storage, err := objects.FromEnv(m.Env, store.Patience{Answer: m.Answer, Total: m.Patience, Log: m.Log})
	return storage, ofStorage(err)
}

// ofStorage is an error of the storage that has the objects.
func ofStorage(err error) error {
	var known *failure
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, ErrTerminated) {
		return err
	}
	return fail(mover.ReasonCommandFailed, "%v", err)
}

// share is the pace of one of those that send and read at once.
func (a *attempt) share() *pace {
	if a.BytesPerSecond == 0 {
		return &pace{}
	}
	return &pace{perSecond: max(1, a.BytesPerSecond/(packers+1))}
}

// listing is the data of a backup of objects while it is written. It is safe for concurrent use.
type listing struct {
	mu     sync.Mutex
	packed io.WriteCloser
	sum    hash.Hash
	size   int64
}

func newListing(to io.Writer, compression, passphrase string) (*listing, error) {
	deriving.Lock()
	defer deriving.Unlock()
	packed, err := pack(to, compression, passphrase)
	if err != nil {
		return nil, err
	}
	l := &listing{packed: packed, sum: sha256.New()}
	return l, l.add(mover.Line{Listing: mover.ListingVersion})
}

func (l *listing) add(line mover.Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	// With its end.
	if len(text) >= maxLineOfListing && line.Object != nil {
		return tooLong(line.Object, len(text), maxLineOfListing)
	}
	return l.write(text)
}

// tooLong is of an object of which more is to be said than can be read again.
func tooLong(e *mover.Entry, size, most int) error {
	return fail(mover.ReasonBadPlan, "object %q of bucket %q cannot be kept: its metadata and the names of its packs "+
		"have %d bytes, and no more than %d can be read again: give it less metadata, or make several objects of it",
		e.Key, e.Bucket, size, most)
}

// write writes a line as it is.
func (l *listing) write(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := append(text[:len(text):len(text)], '\n')
	l.size += int64(len(line))
	l.sum.Write(line)
	_, err := l.packed.Write(line)
	return err
}

// take reads what has to be read.
func (in *intake) take(ctx context.Context) error {
	in.crew = newCrew(ctx)
	found, fresh, batches := make(chan objects.Object, 1024), make(chan objects.Object, 64), make(chan []objects.Object)
	in.crew.have(1, func() error { return in.list(found) }, func() { close(found) })
	in.crew.have(lookers, func() error { return in.look(found, fresh) }, func() { close(fresh) })
	in.crew.have(1, func() error { return in.batch(fresh, batches) }, func() { close(batches) })
	in.crew.have(packers, func() error { return in.pack(batches) }, func() {})
	return in.crew.wait()
}

// list hands all objects on.
func (in *intake) list(found chan<- objects.Object) error {
	buckets, err := in.storage.Buckets(in.crew.ctx)
	if err != nil {
		return ofStorage(err)
	}
	for _, bucket := range buckets {
		if err := in.listing.add(mover.Line{Bucket: &bucket}); err != nil {
			return err
		}
		in.manifest.Buckets++
		for object, err := range in.storage.List(in.crew.ctx, bucket) {
			if err != nil {
				return vanished(bucket.Name, err)
			}
			if err := give(in.crew.ctx, found, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// vanished is an error of a bucket that was there a moment ago.
func vanished(bucket string, err error) error {
	if strings.Contains(err.Error(), objects.ErrBucketAbsent{Bucket: bucket}.Error()) {
		return fail(mover.ReasonUnsteady, "bucket %q was removed while its objects were read: try again", bucket)
	}
	return ofStorage(err)
}

// look hands on what the latest backup does not have as it is now.
func (in *intake) look(found <-chan objects.Object, fresh chan<- objects.Object) error {
	for object := range found {
		if !object.Tagged {
			tags, err := in.storage.Tags(in.crew.ctx, &object.Entry)
			if errors.Is(err, store.ErrAbsent) {
				continue
			}
			if err != nil {
				return vanished(object.Bucket, err)
			}
			object.Tags, object.Tagged = tags, true
		}
		if in.known.see(&object.Entry) {
			continue
		}
		if err := give(in.crew.ctx, fresh, object); err != nil {
			return err
		}
	}
	return nil
}

// batch gathers small objects, each batch for one pack. A large one is alone.
func (in *intake) batch(fresh <-chan objects.Object, batches chan<- []objects.Object) error {
	var small []objects.Object
	var size int64
	for object := range fresh {
		if object.Size > smallObject {
			if err := give(in.crew.ctx, batches, []objects.Object{object}); err != nil {
				return err
			}
			continue
		}
		if size+object.Size > batchBytes || len(small) == batchObjects {
			if err := give(in.crew.ctx, batches, small); err != nil {
				return err
			}
			small, size = nil, 0
		}
		small, size = append(small, object), size+object.Size
	}
	if len(small) == 0 {
		return nil
	}
	return give(in.crew.ctx, batches, small)
}

// nameKnown names, for all objects that are as they were, the packs of the earlier backup.
func (in *intake) nameKnown(ctx context.Context) error {
	if in.known == nil {
		return nil
	}
	earlier := in.known.manifest
	in.manifest.Base = path.Base(earlier.Key)
	needed := make([]bool, len(earlier.Objects.Packs))
	err := in.eachLine(ctx, in.Plan, earlier, func(line *mover.Line, text []byte) error {
		if line.Object == nil || !in.known.saw(line.Object) {
			return nil
		}
		for _, piece := range line.Object.Pieces {
			at, named := packAt(earlier, piece.Pack)
			if !named || needed[at] {
				continue
			}
			needed[at] = true
			if err := in.reserve(1, piece.Pack); err != nil {
				return err
			}
		}
		in.manifest.Count++
		in.manifest.Size += line.Object.Size
		return in.listing.write(text)
	})
	for at, part := range earlier.Objects.Packs {
		if needed[at] {
			in.manifest.Packs = append(in.manifest.Packs, part)
		}
	}
	return err
}

// packAt is where a manifest has a pack: they are in the order of their names.
func packAt(manifest *mover.Manifest, name string) (int, bool) {
	return slices.BinarySearchFunc(manifest.Objects.Packs, name,
		func(part mover.Part, name string) int { return strings.Compare(part.Name, name) })
}

// reserve has room in the manifest for packs before they are made or named: else that there is none would be found out
// last. Numbers of packs, of seven digits at most, do not run out before: there is room for some 200,000, and each is
// made mostChanges times at most.
func (in *intake) reserve(count int, name string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.packs, in.text = in.packs+count, in.text+count*(packText+len(name))
	if in.text <= maxManifestOfObjects-otherText {
		return nil
	}
	return fail(mover.ReasonBadPlan, "the backup needs %d packs or more, and a manifest of %d bytes has no room for "+
		"them: make a full backup, which packs all small objects anew, or have fewer objects of more than %d bytes in one "+
		"storage: each has packs of its own",
		in.packs, maxManifestOfObjects, smallObject)
}

// release gives back what was reserved for packs that are not made.
func (in *intake) release(count int, name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.packs, in.text = in.packs-count, in.text-count*(packText+len(name))
}

// ownPack is a name as long as that of any pack of this backup.
func (in *intake) ownPack() string {
	return path.Base(in.Backup.Key) + "/" + packName(in.run, 9_999_999)
}
