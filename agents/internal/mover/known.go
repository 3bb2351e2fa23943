// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// maxLineOfListing is how many bytes a line of a listing has at most, with its end. Keys, metadata and tags have some
// thousand; pieces have up to 320 each, and an object of 5 TiB has 20,480 of them.
const maxLineOfListing = 32 << 20

// identity stands for an object as it was: bucket, key, ETag, version, size, time and tags.
type identity [16]byte

func identityOf(e *mover.Entry) identity {
	sum := sha256.New()
	for _, text := range []string{e.Bucket, e.Key, e.ETag, e.Version} {
		_ = binary.Write(sum, binary.BigEndian, int64(len(text)))
		_, _ = io.WriteString(sum, text)
	}
	_ = binary.Write(sum, binary.BigEndian, []int64{e.Size, e.Modified.UnixNano()})
	for _, name := range slices.Sorted(maps.Keys(e.Tags)) {
		fmt.Fprintf(sum, "%q=%q", name, e.Tags[name])
	}
	return identity(sum.Sum(nil)[:16])
}

// known is what an earlier backup has, of which an identity is all that is in memory of an object.
type known struct {
	manifest *mover.Manifest
	all      []identity
	mu       sync.Mutex
	seen     []bool
}

// see says whether an object is there as it is now, and notes that.
func (k *known) see(e *mover.Entry) bool {
	if k == nil {
		return false
	}
	at, found := k.find(e)
	if found {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.seen[at] = true
	}
	return found
}

// saw says whether an object was seen.
func (k *known) saw(e *mover.Entry) bool {
	at, found := k.find(e)
	return found && k.seen[at]
}

func (k *known) find(e *mover.Entry) (int, bool) {
	return slices.BinarySearchFunc(k.all, identityOf(e), func(a, b identity) int { return bytes.Compare(a[:], b[:]) })
}

// base is the latest backup of the instance that this one can name the packs of; nil where there is none. What is
// damaged, or was encrypted otherwise, is none. The attempt has said before that it is there: from then on nobody
// removes a pack that a listing names.
func (a *attempt) base(ctx context.Context) (*known, error) {
	if a.Objects.Mode != mover.ObjectsIncremental {
		return nil, nil
	}
	folder, err := a.instance(ctx, path.Dir(a.Backup.Key))
	if err != nil {
		return nil, err
	}
	// A manifest can be long: one is in memory at a time.
	type candidate struct {
		key string
		end time.Time
	}
	var candidates []candidate
	for _, key := range folder.whole() {
		manifest, _, err := a.manifest(ctx, key)
		if err != nil && !isOfBackup(err) {
			return nil, err
		}
		if err == nil && manifest.Objects != nil && (manifest.Encryption != "") == a.Repository.Encrypted &&
			key != a.Backup.Key {
			candidates = append(candidates, candidate{key, manifest.EndTime})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(b.end.Compare(a.end), strings.Compare(b.key, a.key))
	})
	for _, c := range candidates {
		k, err := a.learn(ctx, c.key)
		if err == nil {
			return k, nil
		}
		if !isOfBackup(err) {
			return nil, err
		}
		a.Log.Warn("an earlier backup is nothing to begin with", "key", c.key, "error", err.Error())
	}
	return nil, nil
}

// isOfBackup says whether an error is one of a single backup, and none of the repository.
func isOfBackup(err error) bool {
	var known *failure
	return errors.As(err, &known) && slices.Contains(
		[]string{mover.ReasonDamaged, mover.ReasonNotFound, mover.ReasonWrongPassphrase, mover.ReasonUnsupported},
		known.reason)
}

// learn reads the listing of a backup all of whose files are there.
func (a *attempt) learn(ctx context.Context, key string) (*known, error) {
	manifest, _, err := a.find(ctx, &mover.Backup{Key: key})
	if err != nil {
		return nil, err
	}
	k := &known{manifest: manifest, all: make([]identity, 0, manifest.Objects.Count)}
	err = a.eachLine(ctx, a.Plan, manifest, func(line *mover.Line, _ []byte) error {
		if line.Object != nil {
			k.all = append(k.all, identityOf(line.Object))
		}
		return nil
	})
	slices.SortFunc(k.all, func(a, b identity) int { return bytes.Compare(a[:], b[:]) })
	k.seen = make([]bool, len(k.all))
	return k, err
}

// eachLine gives the lines of a listing, and how each is written. It ends well only when all of them have come.
func (m *Mover) eachLine(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest,
	take func(line *mover.Line, text []byte) error) error {
	deriving.Lock()
	data, err := m.contents(ctx, plan, manifest)
	deriving.Unlock()
	if err != nil {
		return err
	}
	defer data.Close()
	lines := bufio.NewScanner(data)
	lines.Buffer(make([]byte, 64<<10), maxLineOfListing)
	for first := true; lines.Scan(); first = false {
		var line mover.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return damaged("a line of the listing cannot be read: %v", err)
		}
		if first && (line.Listing < 1 || line.Listing > mover.ListingVersion) {
			return fail(mover.ReasonUnsupported, "the listing has the version %d, and this mover knows %d: use a newer one",
				line.Listing, mover.ListingVersion)
		}
		if err := take(&line, lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return damaged("a line of the listing has more than %d bytes", maxLineOfListing)
	}
	return lines.Err()
}
