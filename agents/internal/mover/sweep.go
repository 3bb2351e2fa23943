// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// instance is what is in the folder that has the backups of one.
type instance struct {
	// backups by key, in the order in which they came.
	backups map[string]*folderFiles
	keys    []string
}

// folderFiles are what is in the folder of a backup.
type folderFiles struct {
	manifest, mark bool
	// packs by name, relative to the folder of the instance.
	packs []string
}

// instance lists the folder that has the backups of one.
func (m *Mover) instance(ctx context.Context, folder string) (*instance, error) {
	all := &instance{backups: map[string]*folderFiles{}}
	for object, err := range m.repository.Objects(ctx, folder) {
		if err != nil {
			return nil, err
		}
		file := fileForm.FindStringSubmatch(object.Name)
		if file == nil || path.Dir(file[1]) != folder {
			continue
		}
		key := file[1]
		its := all.backups[key]
		if its == nil {
			its = &folderFiles{}
			all.backups[key], all.keys = its, append(all.keys, key)
		}
		its.manifest = its.manifest || object.Name == key+"/"+mover.ManifestName
		its.mark = its.mark || object.Name == key+"/"+mover.MarkName
		if file[4] != "" {
			its.packs = append(its.packs, strings.TrimPrefix(object.Name, folder+"/"))
		}
	}
	return all, nil
}

// whole are the keys of those that have a manifest.
func (i *instance) whole() []string {
	return slices.DeleteFunc(slices.Clone(i.keys), func(key string) bool { return !i.backups[key].manifest })
}

// beginning says whether one of them may be under way.
func (i *instance) beginning() bool {
	return slices.ContainsFunc(i.keys, func(key string) bool { return i.backups[key].mark && !i.backups[key].manifest })
}

// packs are those of all.
func (i *instance) packs() (packs []string) {
	for _, key := range i.keys {
		packs = append(packs, i.backups[key].packs...)
	}
	return packs
}

// sweep removes the packs that no backup names: those of backups that were deleted, above all.
//
// While a backup of the instance may be under way nothing is removed: it names packs of whatever backup it finds, and
// says that it is there before it looks. So who is not seen here looks after that backup has gone. It is looked twice,
// since another backup may go between two files of the first look, after somebody has found it who came after the
// beginning of that.
func (m *Mover) sweep(ctx context.Context, folder string) error {
	first, err := m.instance(ctx, folder)
	if err != nil {
		return err
	}
	if len(first.packs()) == 0 || first.beginning() {
		return nil
	}
	needed, err := m.needed(ctx, first)
	if err != nil || needed == nil {
		return err
	}
	useless := slices.DeleteFunc(first.packs(), func(name string) bool { return needed[name] })
	if len(useless) == 0 {
		return nil
	}
	second, err := m.instance(ctx, folder)
	if err != nil || second.beginning() || !slices.Equal(first.whole(), second.whole()) {
		return err
	}
	for _, name := range useless {
		if err := m.repository.Remove(ctx, folder+"/"+name); err != nil {
			return err
		}
	}
	m.Log.Info("packs that no backup needs are removed", "count", len(useless))
	for _, key := range second.keys {
		its := second.backups[key]
		if !its.manifest && !its.mark && !slices.ContainsFunc(its.packs, func(name string) bool { return needed[name] }) {
			// Folders that nothing is in.
			if err := m.repository.Clear(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// needed are the packs that backups name; nil where nobody knows. A backup that was deleted meanwhile leaves the rest
// to its own deletion.
func (m *Mover) needed(ctx context.Context, all *instance) (map[string]bool, error) {
	needed := map[string]bool{}
	for _, key := range all.whole() {
		manifest, _, err := m.manifest(ctx, key)
		if err != nil && isOfBackup(err) {
			m.Log.Warn("packs that may be of no use stay", "key", key, "error", err.Error())
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if manifest.Objects != nil {
			for _, part := range manifest.Objects.Packs {
				needed[part.Name] = true
			}
		}
	}
	return needed, nil
}

// removeSharing removes a backup from an instance whose backups may need packs of each other. Manifest and mark are
// gone.
func (m *Mover) removeSharing(ctx context.Context, key string) error {
	if err := m.clearRuns(ctx, key, "", keepPacks); err != nil {
		return err
	}
	return m.sweep(ctx, path.Dir(key))
}

// shares says whether a backup of the instance has packs.
func (m *Mover) shares(ctx context.Context, key string) (bool, error) {
	if path.Dir(key) == "." {
		return false, nil
	}
	all, err := m.instance(ctx, path.Dir(key))
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all.keys, func(key string) bool { return len(all.backups[key].packs) > 0 }), nil
}

// errDetached is of a backup of objects that is in no folder of an instance.
var errDetached = errors.New("the key of a backup of objects needs the folder of an instance before it")
