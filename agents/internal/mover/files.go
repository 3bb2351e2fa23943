// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// snapshotForm is an ID of restic.
var snapshotForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// leftOut are files that no restored volume is to have: what agents noted for this one, and what file systems have by
// themselves.
var leftOut = []string{mover.OwnPrefix + "*", foundName}

// takeFiles keeps the files of a folder. What an earlier attempt has sent is there, and is not sent again.
func (a *attempt) takeFiles(ctx context.Context, manifest *mover.Manifest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go a.watch(ctx, cancel)
	r, err := a.restic(a.Backup.Key, filesFolder(a.Repository.Encrypted))
	if err != nil {
		return err
	}
	r.bytesPerSecond = a.BytesPerSecond
	exclude := append([]string(nil), a.Files.Exclude...)
	for _, name := range leftOut {
		exclude = append(exclude, filepath.Join(a.Files.Folder, name))
	}
	got, err := a.keepFiles(ctx, r, exclude)
	if err != nil && reasonOf(err) == mover.ReasonDamaged {
		var needed bool
		if needed, err = a.needs(ctx, r, err); needed || err != nil {
			return err
		}
		// Two attempts that began at the same time have made it, half each.
		if err = a.repository.Clear(ctx, r.folder); err == nil {
			got, err = a.keepFiles(ctx, r, exclude)
		}
	}
	if err != nil {
		return err
	}
	manifest.FormatVersion, manifest.Compression = mover.FilesFormatVersion, mover.CompressionZstd
	manifest.RawSize = got.Bytes
	manifest.Files = &mover.FilesManifest{Repository: path.Base(r.folder), Snapshot: got.Snapshot, Folder: a.Files.Folder,
		Count: got.Files, Size: got.Bytes, Added: got.Added}
	manifest.Facts = map[string]string{"files": strconv.FormatInt(got.Files, 10),
		"bytesAdded": strconv.FormatInt(got.Added, 10), "vanished": strconv.Itoa(got.vanished)}
	return nil
}

// settled is how long after a repository was made an attempt that was superseded meanwhile has ended, which may have
// been about to make it as well.
const settled = 2 * watchInterval

// keepFiles keeps them, in a repository that is made where there is none.
func (a *attempt) keepFiles(ctx context.Context, r *restic, exclude []string) (keptFiles, error) {
	made, err := r.prepare(ctx)
	if err != nil {
		return keptFiles{}, err
	}
	since := time.Now()
	got, err := r.keep(ctx, a.Files.Folder, exclude)
	if err != nil || !made {
		return got, err
	}
	select {
	case <-ctx.Done():
		return got, context.Cause(ctx)
	case <-time.After(settled - time.Since(since)):
	}
	_, err = r.do(ctx, "", "cat", "config")
	return got, err
}

// needs says whether a backup of the instance has its files in a repository that is damaged: then that is what is
// wrong.
func (a *attempt) needs(ctx context.Context, r *restic, cause error) (bool, error) {
	if err := a.latest(ctx); err != nil {
		return false, err
	}
	all, err := a.instance(ctx, path.Dir(a.Backup.Key))
	if err != nil {
		return false, err
	}
	for _, key := range all.whole() {
		manifest, _, err := a.manifest(ctx, key)
		if err != nil || manifest.Files != nil && manifest.Files.Repository == path.Base(r.folder) {
			return true, cause
		}
	}
	return false, nil
}

// filesFolder is the folder of restic's repository beside the backups of an instance.
func filesFolder(encrypted bool) string {
	if encrypted {
		return mover.FilesFolderEncrypted
	}
	return mover.FilesFolder
}

// hasFiles says whether restic has the snapshot of a backup.
func (m *Mover) hasFiles(ctx context.Context, manifest *mover.Manifest) error {
	name := path.Join(path.Dir(manifest.Key), manifest.Files.Repository, "snapshots", manifest.Files.Snapshot)
	_, err := m.repository.Head(ctx, name, 1)
	if errors.Is(err, store.ErrAbsent) {
		return damaged("the snapshot %s of the files is missing", manifest.Files.Snapshot)
	}
	return err
}

// ofFiles is the way to what restic has of a backup.
func (m *Mover) ofFiles(manifest *mover.Manifest) (*restic, error) {
	if manifest.Files.Repository == mover.FilesFolderEncrypted && m.passphrase == "" {
		return nil, fail(mover.ReasonWrongPassphrase, "the files are encrypted, and the repository has no passphrase")
	}
	return m.restic(manifest.Key, manifest.Files.Repository)
}

// restoreFiles puts the files of a backup into the folder that commands run in. restic compares each piece with the sum
// that it is named by. The repository may be mounted for reading only, so that there is no lock: where somebody prunes
// it meanwhile this attempt fails, and not the next one.
func (m *Mover) restoreFiles(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest) error {
	if m.dir == "" {
		return fail(mover.ReasonBadPlan, "the backup is of files, and no command takes these")
	}
	if err := m.checkMetadata(ctx, manifest); err != nil {
		return err
	}
	r, err := m.ofFiles(manifest)
	if err != nil {
		return err
	}
	r.bytesPerSecond = plan.BytesPerSecond
	_, err = r.do(ctx, "", "restore", "--no-lock", manifest.Files.Snapshot, "--target", m.dir)
	return err
}

// verifyFiles reads all files of a backup.
func (m *Mover) verifyFiles(ctx context.Context, plan *mover.Plan, manifest *mover.Manifest) error {
	if err := m.checkMetadata(ctx, manifest); err != nil {
		return err
	}
	r, err := m.ofFiles(manifest)
	if err != nil {
		return err
	}
	r.bytesPerSecond = plan.BytesPerSecond
	// An archive is the only form in which it gives all of them to somebody else.
	_, err = r.do(ctx, "", "dump", "--no-lock", "--target", "/dev/null", manifest.Files.Snapshot, "/")
	return err
}

// removeFiles removes what restic has of a backup, and then what is in no backup any more. The manifest is gone.
func (m *Mover) removeFiles(ctx context.Context, key string) error {
	for _, folder := range []string{mover.FilesFolder, mover.FilesFolderEncrypted} {
		r, err := m.restic(key, folder)
		if err != nil {
			return err
		}
		there, err := r.isThere(ctx)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if folder == mover.FilesFolderEncrypted && m.passphrase == "" {
			return fail(mover.ReasonWrongPassphrase, "the files are encrypted, and the repository has no passphrase")
		}
		if _, err := r.prepare(ctx); err != nil {
			return err
		}
		ids, err := r.snapshots(ctx)
		if err == nil {
			err = r.forget(ctx, ids)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFiles says whether a manifest names files as it has to.
func checkFiles(manifest *mover.Manifest) error {
	files := manifest.Files
	switch {
	case files == nil && manifest.FormatVersion < mover.FilesFormatVersion:
		return nil
	case files == nil:
		return damaged("the manifest has the format version %d, and no files", manifest.FormatVersion)
	case manifest.FormatVersion != mover.FilesFormatVersion:
		return damaged("the manifest has the format version %d, and files", manifest.FormatVersion)
	case files.Repository != mover.FilesFolder && files.Repository != mover.FilesFolderEncrypted:
		return damaged("the manifest has its files in %q", files.Repository)
	case !snapshotForm.MatchString(files.Snapshot):
		return damaged("the manifest names the snapshot %q", files.Snapshot)
	case !filepath.IsAbs(files.Folder) || filepath.Clean(files.Folder) != files.Folder:
		return damaged("the manifest is of the folder %q", files.Folder)
	case files.Count < 1 || files.Size < 0 || files.Added < 0 || files.Size != manifest.RawSize:
		return damaged("the manifest has %d files of %d bytes", files.Count, files.Size)
	case len(manifest.Parts) > 0 || manifest.Objects != nil || len(manifest.Streams) > 0:
		return damaged("the manifest has files, and something else")
	}
	return nil
}

// checkFilesOf says whether a plan of files has what its verb needs, and nothing else.
func checkFilesOf(plan *mover.Plan) error {
	if plan.Files == nil {
		return nil
	}
	folder := plan.Files.Folder
	switch {
	case plan.Verb != mover.VerbBackup && plan.Verb != mover.VerbRestore && plan.Verb != mover.VerbDelete:
		return fmt.Errorf("the verb %s has files", plan.Verb)
	case plan.Objects != nil || len(plan.Command) > 0 || len(plan.Facts) > 0 || len(plan.Streams) > 0 ||
		len(plan.Steady) > 0:
		return fmt.Errorf("the verb %s has files, and something else to carry", plan.Verb)
	case plan.Verb == mover.VerbBackup && (!filepath.IsAbs(folder) || filepath.Clean(folder) != folder):
		return fmt.Errorf("%q is no folder of files", folder)
	case plan.Verb != mover.VerbBackup && (folder != "" || len(plan.Files.Exclude) > 0):
		return fmt.Errorf("the verb %s takes no folder of files", plan.Verb)
	case plan.Verb == mover.VerbRestore && plan.Volume == nil:
		return errors.New("files go on a volume, and the plan has none")
	case plan.Backup != nil && !strings.Contains(plan.Backup.Key, "/"):
		return errors.New("the key of a backup of files needs the folder of an instance before it")
	}
	return nil
}
