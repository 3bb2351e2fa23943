// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

const (
	// halfPrefix begins the name of the folder on a volume in which a command works: what is there may be half.
	halfPrefix = ".zeroinfra.restoring-"
	// wholePrefix and the ID are its name from when all is there and on disk, until all of it is in place.
	wholePrefix = ".zeroinfra.restore-"
	// foundName is what some file systems have by themselves.
	foundName = "lost+found"
	// markMode lets the next pod read the mark, which may have another user but has the volume's group.
	markMode = 0o660
)

// target is a volume that is filled once.
type target struct {
	mover.TargetVolume
	// half is the folder that this mover's command runs in: one that was forgotten and still runs has another.
	half string
}

// restoreInto fills a volume. A mover that is killed leaves what the next one removes, or, where all is there, goes on
// with.
func (m *Mover) restoreInto(ctx context.Context, plan *mover.Plan) (mover.Result, error) {
	t := target{TargetVolume: *plan.Volume}
	done, err := t.isDone()
	if err != nil || done {
		return mover.Result{}, err
	}
	if t.has(t.whole()) {
		m.Log.Info("an earlier attempt has read all of the backup", "folder", t.Folder)
		return mover.Result{}, t.settle()
	}
	if err := t.clear(); err != nil {
		return mover.Result{}, err
	}
	m.dir = t.half
	result, err := m.restore(ctx, plan)
	if err != nil {
		return mover.Result{}, errors.Join(err, t.failed(os.RemoveAll(m.dir)))
	}
	if err := t.seal(); err != nil {
		return mover.Result{}, err
	}
	return result, t.settle()
}

func (t target) path(name string) string { return filepath.Join(t.Folder, name) }

func (t target) whole() string { return wholePrefix + t.ID }

func (t target) has(name string) bool {
	_, err := os.Lstat(t.path(name))
	return err == nil
}

// failed is what is wrong with the volume itself; nil where nothing is.
func (t target) failed(err error) error {
	if err == nil {
		return nil
	}
	return fail(mover.ReasonTargetFailed, "the volume at %s: %v", t.Folder, err)
}

// isDone says whether the volume has what it is to have. What has something else is never touched.
func (t target) isDone() (bool, error) {
	id, err := os.ReadFile(t.path(mover.RestoredName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, t.failed(err)
	case strings.TrimSpace(string(id)) != t.ID:
		return false, fail(mover.ReasonTargetNotEmpty,
			"the volume at %s has data that was restored before: take an empty one", t.Folder)
	}
	return true, nil
}

// clear removes what an attempt left half, and makes the folder for another. A volume with anything else is refused.
func (t *target) clear() error {
	entries, err := os.ReadDir(t.Folder)
	if err != nil {
		return t.failed(err)
	}
	isHalf := func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), halfPrefix) }
	if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return !isHalf(e) && e.Name() != foundName }); i >= 0 {
		return fail(mover.ReasonTargetNotEmpty, "the volume at %s is not empty: it has %q", t.Folder, entries[i].Name())
	}
	for _, e := range entries {
		if isHalf(e) {
			if err := os.RemoveAll(t.path(e.Name())); err != nil {
				return t.failed(err)
			}
		}
	}
	t.half, err = os.MkdirTemp(t.Folder, halfPrefix)
	return t.failed(err)
}

// seal has all that the command made on disk, under the name that says so.
func (t target) seal() error {
	entries, err := os.ReadDir(t.half)
	if err == nil && len(entries) == 0 {
		return fail(mover.ReasonCommandFailed, "the command has put nothing on the volume")
	}
	if err != nil {
		return t.failed(err)
	}
	if err := t.sync(); err != nil {
		return err
	}
	return t.failed(errors.Join(os.Rename(t.half, t.path(t.whole())), atomicfile.SyncFolder(t.Folder)))
}

// sync has all that is on the volume on disk.
func (t target) sync() error {
	folder, err := os.Open(t.Folder)
	if err != nil {
		return t.failed(err)
	}
	defer folder.Close()
	if err := unix.Syncfs(int(folder.Fd())); err != nil {
		return t.failed(fmt.Errorf("cannot be synced: %w", err))
	}
	return nil
}

// settle moves what is whole to its place, and says last that all of it is there.
func (t target) settle() error {
	entries, err := os.ReadDir(t.path(t.whole()))
	if err != nil {
		return t.failed(err)
	}
	for _, entry := range entries {
		if t.has(entry.Name()) {
			return fail(mover.ReasonTargetNotEmpty, "the volume at %s has got %q meanwhile: take an empty one", t.Folder,
				entry.Name())
		}
		if err := os.Rename(filepath.Join(t.path(t.whole()), entry.Name()), t.path(entry.Name())); err != nil {
			return t.failed(err)
		}
	}
	if err := atomicfile.SyncFolder(t.Folder); err != nil {
		return t.failed(err)
	}
	if err := atomicfile.Write(t.path(mover.RestoredName), []byte(t.ID+"\n"), markMode); err != nil {
		return t.failed(err)
	}
	return t.failed(os.Remove(t.path(t.whole())))
}
