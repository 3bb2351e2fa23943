// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/checksum"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// onArtifacts says whether a verb is about artifacts.
func onArtifacts(verb mover.Verb) bool {
	return verb == mover.VerbKeep || verb == mover.VerbFetch || verb == mover.VerbDiscard
}

// checkArtifacts says whether a plan has the artifacts that its verb needs, and nothing else.
func checkArtifacts(plan *mover.Plan) error {
	a := plan.Artifacts
	switch {
	case !onArtifacts(plan.Verb) && a == nil:
		return nil
	case !onArtifacts(plan.Verb):
		return fmt.Errorf("the verb %s has artifacts", plan.Verb)
	case a == nil || !store.IsName(a.Folder) || !strings.HasPrefix(a.Folder, mover.ArtifactsFolder+"/"):
		return fmt.Errorf("the verb %s has no folder of artifacts", plan.Verb)
	case plan.Repository.Encrypted:
		return errors.New("artifacts are not encrypted, and the repository is")
	case (len(a.Files) == 0) != (plan.Verb == mover.VerbDiscard):
		return fmt.Errorf("the verb %s has %d files", plan.Verb, len(a.Files))
	}
	for _, file := range a.Files {
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || file.Path == "/" || file.Mount < 0 {
			return fmt.Errorf("the artifact %q has the path %q", file.Name, file.Path)
		}
		if plan.Verb == mover.VerbFetch && (!checksum.IsSHA256(file.SHA256) || file.Size < 0) {
			return fmt.Errorf("the artifact %q has the digest %q", file.Name, file.SHA256)
		}
	}
	return nil
}

// carryArtifacts does what a verb for artifacts says.
func (m *Mover) carryArtifacts(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	a := plan.Artifacts
	switch plan.Verb {
	case mover.VerbDiscard:
		return mover.Result{}, m.repository.Clear(ctx, a.Folder)
	case mover.VerbFetch:
		for i := range a.Files {
			if err := m.fetchArtifact(ctx, a.Folder, &a.Files[i]); err != nil {
				return mover.Result{}, err
			}
		}
		return mover.Result{}, nil
	}
	return m.keepArtifacts(ctx, a)
}

// keepArtifacts keeps what a task has written. All of it is looked at before any of it is sent.
func (m *Mover) keepArtifacts(ctx context.Context, a *mover.Artifacts) (mover.Result, error) {
	result := mover.Result{Location: m.repository.String() + "/" + a.Folder}
	for i := range a.Files {
		kept, err := m.summed(ctx, &a.Files[i], a.MaxBytes)
		if err != nil {
			return mover.Result{}, err
		}
		result.Artifacts = append(result.Artifacts, kept)
	}
	there := map[string]int64{}
	for object, err := range m.repository.Objects(ctx, a.Folder) {
		if err != nil {
			return mover.Result{}, err
		}
		there[path.Base(object.Name)] = object.Size
	}
	for i, kept := range result.Artifacts {
		if size, known := there[kept.SHA256]; known && size == kept.Size {
			continue
		}
		if err := m.sendArtifact(ctx, a.Folder, &a.Files[i], kept); err != nil {
			return mover.Result{}, err
		}
		there[kept.SHA256] = kept.Size
		m.Log.Info("an artifact is kept", "artifact", kept.Name, "sha256", kept.SHA256, "bytes", kept.Size)
	}
	return result, nil
}

// folderOf opens the folder of a pod that an artifact is in. Nothing in it leads elsewhere: a task could have left a
// link to the credentials of the repository.
func (m *Mover) folderOf(file *mover.ArtifactFile) (*os.Root, error) {
	root, err := os.OpenRoot(filepath.Join(m.Artifacts, strconv.Itoa(file.Mount)))
	if err != nil {
		return nil, fail(mover.ReasonBadPlan, "the folder of artifact %q cannot be opened: %v", file.Name, err)
	}
	return root, nil
}

// opened is the file of an artifact that a task has written.
func (m *Mover) opened(file *mover.ArtifactFile) (*os.File, error) {
	root, err := m.folderOf(file)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	refuse := func(format string, args ...any) error {
		return fail(mover.ReasonArtifactRefused, "artifact %q: %s", file.Name, fmt.Sprintf(format, args...))
	}
	info, err := root.Lstat(path.Base(file.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse("the container ended well, and there is no file %s", file.Path)
	case err != nil:
		return nil, refuse("%s cannot be read: %v", file.Path, err)
	case info.IsDir():
		return nil, refuse("%s is a folder, and an artifact is one file: pack it, for example with tar", file.Path)
	case !info.Mode().IsRegular():
		return nil, refuse("%s is no regular file: links and devices are not kept", file.Path)
	}
	opened, err := root.Open(path.Base(file.Path))
	if errors.Is(err, fs.ErrPermission) {
		return nil, refuse("%s cannot be read by user %d: make it readable for all, or set runAsUser of the task", file.Path,
			os.Getuid())
	}
	if err != nil {
		return nil, refuse("%s cannot be read: %v", file.Path, err)
	}
	return opened, nil
}

// summed reads an artifact that a task has written, and says what it is.
func (m *Mover) summed(ctx context.Context, file *mover.ArtifactFile, most int64) (mover.KeptArtifact, error) {
	content, err := m.opened(file)
	if err != nil {
		return mover.KeptArtifact{}, err
	}
	defer content.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, io.LimitReader(readerWithin(ctx, content), most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return mover.KeptArtifact{}, context.Cause(ctx)
	case err != nil:
		return mover.KeptArtifact{}, fail(mover.ReasonArtifactRefused, "artifact %q: %s cannot be read: %v", file.Name,
			file.Path, err)
	case size > most:
		return mover.KeptArtifact{}, fail(mover.ReasonArtifactRefused,
			"artifact %q: %s has more than the %d bytes that are allowed: raise maxSize, or write less", file.Name, file.Path,
			most)
	}
	return mover.KeptArtifact{Name: file.Name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size}, nil
}

// readerWithin reads until the context ends.
func readerWithin(ctx context.Context, from io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return from.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// sendArtifact keeps an artifact under its digest. It is read again, and not kept where it has changed since.
func (m *Mover) sendArtifact(ctx context.Context, folder string, file *mover.ArtifactFile,
	kept mover.KeptArtifact) error {
	content, err := m.opened(file)
	if err != nil {
		return err
	}
	defer content.Close()
	name, sum := folder+"/"+kept.SHA256, sha256.New()
	piece := make([]byte, min(kept.Size, store.PieceSize))
	if kept.Size <= store.PieceSize {
		if err := readPiece(content, piece, sum, file); err != nil {
			return err
		}
		if err := unchanged(sum, kept, file); err != nil {
			return err
		}
		return m.repository.Replace(ctx, name, piece)
	}
	upload, err := m.repository.Begin(ctx, name)
	if err != nil {
		return err
	}
	number := 0
	for left := kept.Size; left > 0 && err == nil; left -= int64(len(piece)) {
		number++
		piece = piece[:min(left, store.PieceSize)]
		if err = readPiece(content, piece, sum, file); err == nil {
			err = upload.Send(ctx, number, piece)
		}
	}
	if err == nil {
		err = unchanged(sum, kept, file)
	}
	if err == nil {
		return upload.Finish(ctx)
	}
	// What is left of it goes with the run.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	return errors.Join(err, upload.Abandon(clean))
}

// readPiece fills a piece and adds it to a sum.
func readPiece(from io.Reader, piece []byte, sum hash.Hash, file *mover.ArtifactFile) error {
	if _, err := io.ReadFull(from, piece); err != nil {
		return fail(mover.ReasonArtifactRefused, "artifact %q: %s cannot be read again: %v", file.Name, file.Path, err)
	}
	sum.Write(piece)
	return nil
}

// unchanged says whether an artifact is what it was when it was read first.
func unchanged(sum hash.Hash, kept mover.KeptArtifact, file *mover.ArtifactFile) error {
	if hex.EncodeToString(sum.Sum(nil)) != kept.SHA256 {
		return fail(mover.ReasonArtifactRefused, "artifact %q: %s has changed while it was read", file.Name, file.Path)
	}
	return nil
}

// fetchArtifact writes an artifact for a task, and removes what is not as recorded.
func (m *Mover) fetchArtifact(ctx context.Context, folder string, file *mover.ArtifactFile) error {
	root, err := m.folderOf(file)
	if err != nil {
		return err
	}
	defer root.Close()
	base := path.Base(file.Path)
	target, err := root.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err == nil {
		err = errors.Join(m.receiveArtifact(ctx, folder, file, target), target.Chmod(0o644), target.Close())
	} else {
		err = fail(mover.ReasonTargetFailed, "artifact %q: %s cannot be written: %v", file.Name, file.Path, err)
	}
	if err != nil {
		return errors.Join(err, ignoreAbsent(root.Remove(base)))
	}
	m.Log.Info("an artifact is there", "artifact", file.Name, "path", file.Path, "bytes", file.Size)
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// receiveArtifact reads an artifact of the repository.
func (m *Mover) receiveArtifact(ctx context.Context, folder string, file *mover.ArtifactFile, to io.Writer) error {
	lost := func(format string, args ...any) error {
		return fail(mover.ReasonArtifactDamaged, "artifact %q: %s", file.Name, fmt.Sprintf(format, args...))
	}
	name, sum := folder+"/"+file.SHA256, sha256.New()
	for offset := int64(0); offset < file.Size; offset += store.PieceSize {
		piece, err := m.repository.ReadRange(ctx, name, offset, int(min(file.Size-offset, store.PieceSize)))
		switch {
		case errors.Is(err, store.ErrAbsent):
			return lost("it is not in the repository any more: there is no %s at %s", name, m.repository)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return lost("%s has less than the %d bytes that are on record", name, file.Size)
		case err != nil:
			return err
		}
		sum.Write(piece)
		if _, err := to.Write(piece); err != nil {
			return fail(mover.ReasonTargetFailed, "artifact %q: %s cannot be written: %v", file.Name, file.Path, err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != file.SHA256 {
		return lost("%s is not what it was: its SHA-256 is %s", name, got)
	}
	return nil
}
