// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/objects"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// listed is a backup whose listing has some lines beside the first one, each of them as it is.
func listed(t *testing.T, m *Mover, lines ...string) *mover.Manifest {
	t.Helper()
	m.PartSize = 1 << 20
	a := attemptOf(t, m, "first")
	up := a.uploader(t.Context(), &pace{})
	defer up.close()
	l, err := newListing(up, mover.CompressionZstd, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if err := l.write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	manifest := &mover.Manifest{Key: key, Compression: mover.CompressionZstd, RawSize: l.size,
		RawSHA256: fmt.Sprintf("%x", l.sum.Sum(nil))}
	if manifest.Metadata, err = a.keepMetadata(t.Context()); err == nil {
		err = l.packed.Close()
	}
	if err == nil {
		manifest.Parts, err = up.end()
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// lineOf is the line of an object, if it can be listed.
func lineOf(e *mover.Entry) (string, error) {
	var text strings.Builder
	l, err := newListing(&text, mover.CompressionNone, "")
	if err != nil {
		return "", err
	}
	text.Reset()
	err = l.add(mover.Line{Object: e})
	return strings.TrimSuffix(text.String(), "\n"), err
}

// listedObjects are those that a listing has.
func (m *Mover) listedObjects(t *testing.T, manifest *mover.Manifest) (all []*mover.Entry, err error) {
	t.Helper()
	err = m.eachLine(t.Context(), &mover.Plan{}, manifest, func(line *mover.Line, _ []byte) error {
		if line.Object != nil {
			all = append(all, line.Object)
		}
		return nil
	})
	return all, err
}

// The largest object that S3 takes is listed and read again, whatever its backup is called.
func TestTheLargestObjectIsListed(t *testing.T) {
	const largest = 5 << 40
	e := &mover.Entry{Bucket: "films", Key: strings.Repeat("<", 1024), Size: largest, Modified: time.Unix(1, 0).UTC(),
		Metadata: map[string]string{"Owner": strings.Repeat("&", 8<<10)}}
	for number := range largest / chunk {
		e.Pieces = append(e.Pieces, mover.Piece{Pack: strings.Repeat("n", 253) + "-1a2b3c4d/" +
			packName(run, 9_000_000+number), Number: 1})
	}
	line, err := lineOf(e)
	if err != nil {
		t.Fatal(err)
	}
	m := newTestMover(t)
	got, err := m.listedObjects(t, listed(t, m, line))
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], e) {
		t.Errorf("%d objects come back, %v", len(got), err)
	}
	if len(line) > maxLineOfListing/4 {
		t.Errorf("the line has %d bytes of %d", len(line), maxLineOfListing)
	}
}

// What can be listed can be read, and nothing else.
func TestLinesThatAreTooLong(t *testing.T) {
	e := &mover.Entry{Bucket: "films", Key: "a.mp4", Metadata: map[string]string{"Note": ""}}
	line, err := lineOf(e)
	if err != nil {
		t.Fatal(err)
	}
	// With its end.
	room := maxLineOfListing - 1 - len(line)
	e.Metadata["Note"] = strings.Repeat("x", room)
	if line, err = lineOf(e); err != nil {
		t.Fatal(err)
	}
	m := newTestMover(t)
	if got, err := m.listedObjects(t, listed(t, m, line)); err != nil || len(got) != 1 ||
		len(got[0].Metadata["Note"]) != room {
		t.Errorf("%d objects come back, %v", len(got), err)
	}
	e.Metadata["Note"] += "x"
	if _, err := lineOf(e); err == nil || reasonOf(err) != mover.ReasonBadPlan ||
		!strings.Contains(err.Error(), `object "a.mp4" of bucket "films"`) {
		t.Errorf("it says %v", err)
	}
	m = newTestMover(t)
	_, err = m.listedObjects(t, listed(t, m, line+" "))
	ends(t, "a line that nobody wrote", err, mover.ReasonDamaged)
}

// taking is a packer of a backup in the repository of a test.
func taking(t *testing.T, m *Mover) *packer {
	t.Helper()
	in := &intake{attempt: attemptOf(t, m, "first"), compression: mover.CompressionNone}
	in.crew = newCrew(t.Context())
	listing, err := newListing(&strings.Builder{}, mover.CompressionNone, "")
	if err != nil {
		t.Fatal(err)
	}
	in.listing = listing
	return &packer{intake: in, pace: &pace{}, piece: make([]byte, 0, store.PieceSize)}
}

// What a pack says of an object can be read, or is not written.
func TestMetadataThatIsTooLong(t *testing.T) {
	m := newTestMover(t)
	p := taking(t, m)
	e := mover.Entry{Bucket: "plain", Key: "a", Metadata: map[string]string{"Note": ""}}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	// The SHA-256 is not there yet.
	e.Metadata["Note"] = strings.Repeat("x", maxMetadata-len(text)-len(sum))
	err = p.takeSmall(&objects.Reader{Entry: e})
	if err == nil {
		err = p.close()
	}
	if err != nil {
		t.Fatal(err)
	}
	pack, err := m.openPack(t.Context(), &mover.Manifest{Key: key, Compression: mover.CompressionNone},
		p.manifest.Packs[0], &pace{})
	if err != nil {
		t.Fatal(err)
	}
	defer pack.close()
	number, _, err := pack.next()
	if err == nil {
		text, err = pack.entry(number)
	}
	if err != nil || len(text) != maxMetadata {
		t.Errorf("%d bytes are read: %v", len(text), err)
	}
	e.Metadata["Note"] += "x"
	if err := p.takeSmall(&objects.Reader{Entry: e}); err == nil ||
		!strings.Contains(err.Error(), `object "a" of bucket "plain"`) {
		t.Errorf("it says %v", err)
	}
	if err := p.drop(nil); err != nil {
		t.Error(err)
	}
}

// As many packs as there is room for make a manifest that is read again, and one that has more is not begun.
func TestTheMostPacks(t *testing.T) {
	m := newTestMover(t)
	p := taking(t, m)
	manifest := &mover.Manifest{FormatVersion: mover.ObjectsFormatVersion, Key: key, Compression: mover.CompressionZstd,
		RawSize: 10, RawSHA256: sum,
		Parts: []mover.Part{{Name: p.run + "/data-00001", Size: 5, SHA256: sum}}, Objects: &mover.ObjectsManifest{}}
	var err error
	if manifest.Metadata, err = p.keepMetadata(t.Context()); err != nil {
		t.Fatal(err)
	}
	packs := &manifest.Objects.Packs
	for number := 1_000_000; p.reserve(1, p.ownPack()) == nil; number++ {
		*packs = append(*packs, mover.Part{Name: path.Base(key) + "/" + packName(run, number), Size: math.MaxInt64,
			SHA256: sum})
	}
	if len(*packs) < 190_000 || len(*packs) > 9_999_999/mostChanges {
		t.Errorf("there is room for %d", len(*packs))
	}
	refused := p.reserve(1, p.ownPack())
	p.release(3, p.ownPack())
	if refused == nil || reasonOf(refused) != mover.ReasonBadPlan ||
		!strings.Contains(refused.Error(), fmt.Sprintf("needs %d packs or more", len(*packs)+2)) ||
		p.reserve(1, p.ownPack()) != nil {
		t.Errorf("it says %v", refused)
	}
	digest, err := p.seal(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	if got, told, err := m.manifest(t.Context(), key); err != nil || told != digest ||
		len(got.Objects.Packs) != len(*packs) {
		t.Errorf("what is read is another one: %v", err)
	}
	*packs = append(*packs, (*packs)[:20_000]...)
	if _, err := p.seal(t.Context(), manifest); err == nil || reasonOf(err) != mover.ReasonBadPlan ||
		!strings.Contains(err.Error(), fmt.Sprintf("the backup has %d packs", len(*packs))) {
		t.Errorf("it says %v", err)
	}
}

// An object that has more packs than there is room for is not begun to be read.
func TestAnObjectOfTooManyPacks(t *testing.T) {
	p := taking(t, newTestMover(t))
	// Who reads it asks a storage that is not there.
	err := p.takeLarge(&objects.Reader{Entry: mover.Entry{Bucket: "films", Key: "a.mp4", Size: 60 << 40}})
	if err == nil || !strings.Contains(err.Error(), "needs 245760 packs or more") {
		t.Errorf("it says %v", err)
	}
}

// Manifests of anything but objects are no longer than before.
func TestLongManifestsOfNoObjects(t *testing.T) {
	m := newTestMover(t)
	a := attemptOf(t, m, "first")
	manifest := a.carried(t, "data")
	manifest.Facts = map[string]string{"long": strings.Repeat("x", maxManifest)}
	if _, err := a.seal(t.Context(), manifest); err == nil || !strings.Contains(err.Error(), "the backup has 1 parts") {
		t.Errorf("it says %v", err)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	_, err = readManifest(text, key)
	ends(t, "a long one", err, mover.ReasonDamaged)
}
