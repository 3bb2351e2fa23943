// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"path"
	"runtime/debug"
	"time"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// cleanTimeout bounds what is removed when an attempt has failed: a pod that is to end has 30 s.
	cleanTimeout = 15 * time.Second
	// watchInterval is between two looks at the mark while data is carried: an attempt whose upload another one has
	// removed would else go on trying.
	watchInterval = 5 * time.Second
	// maxMark is how many bytes a mark has at most.
	maxMark = 4096
)

// attempt is one run of VerbBackup.
type attempt struct {
	*Mover
	*mover.Plan
	mark mover.Mark
	// run is the attempt's folder in that of the backup.
	run string
	// sealing: its manifest may be there.
	sealing bool
}

// errDeleted is of an attempt that finds no mark.
var errDeleted = fail(mover.ReasonSuperseded, "the backup was deleted meanwhile")

func (m *Mover) newAttempt(plan *mover.Plan) *attempt {
	random := make([]byte, 8)
	// It never fails.
	_, _ = rand.Read(random)
	run := hex.EncodeToString(random)
	return &attempt{Mover: m, Plan: plan, run: run, mark: mover.Mark{Attempt: plan.Backup.Attempt, Run: run}}
}

func (a *attempt) name(of string) string { return a.Backup.Key + "/" + of }

// begin says that this attempt is the latest.
func (a *attempt) begin(ctx context.Context) error {
	text, err := json.Marshal(a.mark)
	if err != nil {
		return err
	}
	return a.repository.Replace(ctx, a.name(mover.MarkName), text)
}

// latest returns a failure when this attempt is not the latest any more.
func (a *attempt) latest(ctx context.Context) error {
	text, err := a.repository.Head(ctx, a.name(mover.MarkName), maxMark)
	if err != nil && !errors.Is(err, store.ErrAbsent) {
		return err
	}
	var mark mover.Mark
	if err == nil && json.Unmarshal(text, &mark) == nil && mark == a.mark {
		return nil
	}
	if mark.Attempt == "" {
		return errDeleted
	}
	return fail(mover.ReasonSuperseded, "the attempt %q works on the same backup", shortened(mark.Attempt, maxAttempt))
}

// watch ends what the attempt does when it is not the latest any more, until the context ends.
func (a *attempt) watch(ctx context.Context, end context.CancelCauseFunc) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if err := a.latest(ctx); err != nil && reasonOf(err) == mover.ReasonSuperseded {
			end(err)
			return
		}
	}
}

// complete returns the manifest of an earlier attempt that had all done, and nobody was told.
func (a *attempt) complete(ctx context.Context) (*mover.Manifest, string, error) {
	manifest, digest, err := a.manifest(ctx, a.Backup.Key)
	if err == nil {
		err = a.whole(ctx, manifest)
	}
	switch reason := mover.ReasonDamaged; {
	case err == nil && (manifest.Encryption != "") == a.Repository.Encrypted:
		return manifest, digest, nil
	case err != nil && reasonOf(err) == mover.ReasonNotFound:
		return nil, "", nil
	case err != nil && reasonOf(err) != reason:
		return nil, "", err
	}
	return nil, "", a.repository.Remove(ctx, a.name(mover.ManifestName))
}

// keepMetadata keeps it, as the first file of the attempt: it tells those who remove what is left of the attempt's
// folder.
func (a *attempt) keepMetadata(ctx context.Context) (mover.Part, error) {
	content := []byte(a.Backup.Metadata)
	if len(content) == 0 {
		content = []byte("{}")
	}
	sum := sha256.Sum256(content)
	name := a.run + "/" + mover.MetadataName
	err := a.repository.Replace(ctx, a.name(name), content)
	return mover.Part{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}, err
}

// seal writes the manifest, which makes it a backup. It returns the digest.
func (a *attempt) seal(ctx context.Context, manifest *mover.Manifest) (string, error) {
	text, err := json.MarshalIndent(manifest, "", " ")
	if err != nil {
		return "", err
	}
	if limit := longest(manifest); len(text) > limit {
		files, kind := len(manifest.Parts), "parts"
		if manifest.Objects != nil {
			files, kind = len(manifest.Objects.Packs), "packs"
		}
		return "", fail(mover.ReasonBadPlan,
			"the backup has %d %s, whose manifest would be longer than %d bytes: make several of less data each", files, kind,
			limit)
	}
	if err := a.latest(ctx); err != nil {
		return "", err
	}
	name := a.name(mover.ManifestName)
	a.sealing = true
	err = a.repository.Put(ctx, name, bytes.NewReader(text), int64(len(text)))
	if errors.Is(err, store.ErrExists) {
		err = a.displace(ctx, name, text)
	}
	if err != nil {
		return "", err
	}
	// It is whole, whether the mover is to end now or not.
	ctx, cancel := a.cleaning(ctx)
	defer cancel()
	return digestOf(text), a.latest(ctx)
}

// displace puts the manifest in place of one that is there: the own, when an answer was lost, or that of an earlier
// attempt which came to its end after this one had begun.
func (a *attempt) displace(ctx context.Context, name string, text []byte) error {
	if there, err := a.read(ctx, name, maxManifestOfObjects); err != nil || bytes.Equal(there, text) {
		return err
	}
	if err := a.latest(ctx); err != nil {
		return err
	}
	return a.repository.Replace(ctx, name, text)
}

// cleaning is the time for what is to be done although the work has ended.
func (a *attempt) cleaning(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
}

// undo removes what a failed attempt has made, and returns why it failed: another attempt is a better reason than what
// comes of it. Once there may be a manifest everything is left as it is: a later attempt may have taken it for its own,
// or else removes it.
func (a *attempt) undo(ctx context.Context, cause error) error {
	ctx, cancel := a.cleaning(ctx)
	defer cancel()
	later := a.latest(ctx)
	if later != nil && reasonOf(later) == mover.ReasonSuperseded {
		cause = later
	}
	if a.sealing {
		if !errors.Is(later, errDeleted) {
			return cause
		}
		if err := a.repository.Remove(ctx, a.name(mover.ManifestName)); err != nil {
			a.Log.Warn("cannot remove the manifest of a backup that was deleted", "error", err.Error())
		}
	}
	if err := a.repository.Clear(ctx, a.name(a.run)); err != nil {
		a.Log.Warn("cannot remove what a failed attempt has left", "error", err.Error())
	}
	return cause
}

// read reads an object that has no more bytes than some.
func (m *Mover) read(ctx context.Context, name string, limit int) ([]byte, error) {
	text, err := m.repository.Head(ctx, name, limit+1)
	if err == nil && len(text) > limit {
		return nil, damaged("%s has more than %d bytes", name, limit)
	}
	return text, err
}

// manifest of a backup, and its digest.
func (m *Mover) manifest(ctx context.Context, key string) (*mover.Manifest, string, error) {
	text, err := m.read(ctx, key+"/"+mover.ManifestName, maxManifestOfObjects)
	if errors.Is(err, store.ErrAbsent) {
		return nil, "", fail(mover.ReasonNotFound, "there is no backup %s in %s", key, m.repository)
	}
	if err != nil {
		return nil, "", err
	}
	if len(text) > maxManifest {
		// It is one of objects, whose movers may take more memory than others.
		debug.SetMemoryLimit(objectsMemory)
	}
	manifest, err := readManifest(text, key)
	return manifest, digestOf(text), err
}

// whole says whether all files of a backup are there, and as long as they were.
func (m *Mover) whole(ctx context.Context, manifest *mover.Manifest) error {
	sizes, err := m.sizes(ctx, manifest.Key)
	if err != nil {
		return err
	}
	for _, part := range append(manifest.Parts[:len(manifest.Parts):len(manifest.Parts)], manifest.Metadata) {
		if err := asLong(sizes, manifest.Key, part); err != nil {
			return err
		}
	}
	if manifest.Files != nil {
		return m.hasFiles(ctx, manifest)
	}
	if manifest.Objects == nil {
		return nil
	}
	// They are in the order of their names, so that those of one folder follow each other: an instance can have far more
	// files than one backup names.
	instance, folder := path.Dir(manifest.Key), manifest.Key
	for _, pack := range manifest.Objects.Packs {
		if its := instance + "/" + path.Dir(path.Dir(pack.Name)); its != folder {
			folder = its
			if sizes, err = m.sizes(ctx, folder); err != nil {
				return err
			}
		}
		if err := asLong(sizes, instance, pack); err != nil {
			return err
		}
	}
	return nil
}

// sizes of the files of a folder, by name.
func (m *Mover) sizes(ctx context.Context, folder string) (map[string]int64, error) {
	sizes := map[string]int64{}
	for object, err := range m.repository.Objects(ctx, folder) {
		if err != nil {
			return nil, err
		}
		sizes[object.Name] = object.Size
	}
	return sizes, nil
}

// asLong says whether a part is there, and as long as it was.
func asLong(sizes map[string]int64, folder string, part mover.Part) error {
	size, there := sizes[folder+"/"+part.Name]
	if !there {
		return damaged("the part %s is missing", part.Name)
	}
	if size != part.Size {
		return damaged("the part %s has %d bytes, and had %d", part.Name, size, part.Size)
	}
	return nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// sameSum says whether what was read has a sum.
func sameSum(data []byte, sum string) bool {
	got := sha256.Sum256(data)
	return hex.EncodeToString(got[:]) == sum
}
