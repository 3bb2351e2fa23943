// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// packForm is that of the name of a pack, in the folder that has the backups of an instance.
var packForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*/[0-9a-f]{16}/pack-[0-9]{5,7}$`)

// packName is relative to the folder of the backup; the first has number 1.
func packName(run string, number int) string { return fmt.Sprintf("%s/pack-%05d", run, number) }

// contentName and entryName are those of what is in a pack.
func contentName(number int) string { return fmt.Sprintf("%06d", number) }

func entryName(number int) string { return contentName(number) + ".json" }

// deriving lets one key at a time be derived from the passphrase: each takes 32 MiB.
var deriving sync.Mutex

// packWriter writes one pack, of which nobody sees anything before it is whole. What is in memory of it is a piece.
type packWriter struct {
	ctx     context.Context
	attempt *attempt
	pace    *pace
	// name relative to the folder of the instance.
	name   string
	upload store.Upload
	buffer []byte
	pieces int
	sum    hash.Hash
	size   int64

	packed  io.WriteCloser
	tar     *tar.Writer
	entries int
}

// beginPack begins one with a buffer that nobody else uses meanwhile.
func (a *attempt) beginPack(ctx context.Context, number int, compression string, buffer []byte,
	p *pace) (*packWriter, error) {
	if err := a.latest(ctx); err != nil {
		return nil, err
	}
	name := packName(a.run, number)
	upload, err := a.repository.Begin(ctx, a.name(name))
	if err != nil {
		return nil, err
	}
	w := &packWriter{ctx: ctx, attempt: a, pace: p, name: path.Base(a.Backup.Key) + "/" + name, upload: upload,
		buffer: buffer[:0], sum: sha256.New()}
	deriving.Lock()
	defer deriving.Unlock()
	if w.packed, err = pack(w, compression, a.passphrase); err != nil {
		return nil, errors.Join(err, w.abandon())
	}
	w.tar = tar.NewWriter(w.packed)
	return w, nil
}

// add begins the next content, of which as many bytes have to be written to the returned writer.
func (w *packWriter) add(size int64) (io.Writer, error) {
	w.entries++
	return w.tar, w.tar.WriteHeader(&tar.Header{Name: contentName(w.entries), Size: size, Mode: 0o600,
		Format: tar.FormatPAX})
}

// describe adds what there is to say of the content that was added last.
func (w *packWriter) describe(text []byte) error {
	if err := w.tar.WriteHeader(&tar.Header{Name: entryName(w.entries), Size: int64(len(text)), Mode: 0o600,
		Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := w.tar.Write(text)
	return err
}

// Write implements [io.Writer] for what compresses and encrypts.
func (w *packWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(w.buffer)-len(w.buffer))
		if err := w.pace.wait(w.ctx, n); err != nil {
			return written, err
		}
		w.buffer = append(w.buffer, p[:n]...)
		w.sum.Write(p[:n])
		w.size += int64(n)
		written, p = written+n, p[n:]
		if len(w.buffer) == cap(w.buffer) {
			if err := w.send(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (w *packWriter) send() error {
	w.pieces++
	err := w.upload.Send(w.ctx, w.pieces, w.buffer)
	w.buffer = w.buffer[:0]
	return err
}

// end makes the pack whole.
func (w *packWriter) end() (mover.Part, error) {
	if err := w.tar.Close(); err != nil {
		return mover.Part{}, err
	}
	if err := w.packed.Close(); err != nil {
		return mover.Part{}, err
	}
	if len(w.buffer) > 0 {
		if err := w.send(); err != nil {
			return mover.Part{}, err
		}
	}
	return mover.Part{Name: w.name, Size: w.size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}, w.upload.Finish(w.ctx)
}

// abandon gives up what is not whole.
func (w *packWriter) abandon() error {
	ctx, cancel := w.attempt.cleaning(w.ctx)
	defer cancel()
	return w.upload.Abandon(ctx)
}

// packReader reads one pack, from its beginning.
type packReader struct {
	part mover.Part
	data io.ReadCloser
	down *downloader
	tar  *tar.Reader
}

// openPack opens a pack of a backup, whose sum is compared while it is read.
func (m *Mover) openPack(ctx context.Context, manifest *mover.Manifest, part mover.Part, p *pace) (*packReader, error) {
	down := m.download(ctx, packManifest(manifest, part), p)
	deriving.Lock()
	defer deriving.Unlock()
	data, err := unpack(down, manifest, m.passphrase)
	if err != nil {
		down.close()
		return nil, err
	}
	return &packReader{part: part, data: data, down: down, tar: tar.NewReader(data)}, nil
}

// packManifest is a manifest whose only part is a pack.
func packManifest(manifest *mover.Manifest, part mover.Part) *mover.Manifest {
	return &mover.Manifest{Key: path.Dir(manifest.Key), Parts: []mover.Part{part}}
}

// next is the number of the next content and its size, or [io.EOF].
func (r *packReader) next() (int, int64, error) {
	header, err := r.tar.Next()
	if err != nil {
		return 0, 0, r.blamed(err)
	}
	number, err := strconv.Atoi(header.Name)
	if err != nil || header.Name != contentName(number) {
		return 0, 0, damaged("the pack %s has %q where an object is expected", r.part.Name, header.Name)
	}
	return number, header.Size, nil
}

// entry is what there is to say of the content that came last.
func (r *packReader) entry(number int) ([]byte, error) {
	header, err := r.tar.Next()
	if err == nil && (header.Name != entryName(number) || header.Size > maxMetadata) {
		return nil, damaged("the pack %s has %q where %s is expected", r.part.Name, header.Name, entryName(number))
	}
	if errors.Is(err, io.EOF) {
		return nil, damaged("the pack %s ends before %s", r.part.Name, entryName(number))
	}
	if err != nil {
		return nil, r.blamed(err)
	}
	text, err := io.ReadAll(r.tar)
	return text, r.blamed(err)
}

// blamed is an error of the pack: what has a reason is passed on as it is.
func (r *packReader) blamed(err error) error {
	if err == nil || errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), "archive/tar") &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return damaged("the pack %s cannot be read: %v", r.part.Name, err)
}

// rest reads what nobody needs, since the sum is of all of it.
func (r *packReader) rest() error {
	_, err := io.Copy(io.Discard, r.data)
	return err
}

func (r *packReader) close() {
	_ = r.data.Close()
	r.down.close()
}

// verifyPacks reads all packs of a backup, and compares their sums.
func (m *Mover) verifyPacks(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest) error {
	if manifest.Objects == nil {
		return nil
	}
	for _, part := range manifest.Objects.Packs {
		down := m.download(ctx, packManifest(manifest, part), &pace{perSecond: plan.BytesPerSecond})
		_, err := io.Copy(io.Discard, down)
		down.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// checkObjects says whether a manifest is one of objects where its version says so, and names packs that can be of its
// instance.
func checkObjects(manifest *mover.Manifest) error {
	if (manifest.Objects != nil) != (manifest.FormatVersion == mover.ObjectsFormatVersion) {
		has := "no objects"
		if manifest.Objects != nil {
			has = "objects"
		}
		return damaged("the manifest has the format version %d and %s: version %d, and no other, is of objects",
			manifest.FormatVersion, has, mover.ObjectsFormatVersion)
	}
	if manifest.Objects == nil {
		return nil
	}
	before := ""
	for _, part := range manifest.Objects.Packs {
		if !packForm.MatchString(part.Name) || part.Name <= before || part.Size < 1 || !isSum(part.SHA256) {
			return damaged("the manifest has the pack %q", part.Name)
		}
		before = part.Name
	}
	return nil
}
