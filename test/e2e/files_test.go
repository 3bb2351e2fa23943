// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// filesMethod keeps the snapshot of a Redis, which is put in place by a rename: each file makes sense alone.
const filesMethod = `    backups:
      - name: files
        files: {folder: /data, exclude: ["temp-*.rdb"]}
        restore: {folder: /data}
      - name: rdb
        default: true
`

// TestBackupOfFiles has a plugin that was not there before keep the files of a volume, the second time what has changed alone, delete one of both, and has
// another instance begin with the other, also while the operator is killed.
func TestBackupOfFiles(t *testing.T) {
	s := newSpace(t, "files")
	b := s.newBundle()
	b.replace("    backups:\n      - name: rdb\n", filesMethod)
	b.install()
	b.accepted()
	snapshots := func(spec *databasev1.RedisSpec) { spec.Persistence.Mode = databasev1.PersistenceRDB }
	i := s.redis("cache", b.of(), snapshots)
	i.ready()
	// A volume of one node can be written from there alone, and so can that of the source be read.
	s.shelfAt("store", i.pod().Spec.Containers[0].Image, map[string]string{corev1.LabelHostname: i.pod().Spec.NodeName})
	i.must("EVAL", putKeys, "0")
	i.must("SAVE")
	sum := i.must("EVAL", sumKeys, "0")
	first := i.filesKept("first")
	if first.Spec.Type != platformv1.BackupFiles || first.Status.RawSize < 10_000 || first.Status.Facts["files"] == "" {
		t.Errorf("it is %+v with %+v", first.Spec, first.Status)
	}
	second := i.filesKept("second")
	if second.Status.Size*4 > first.Status.Size {
		t.Errorf("the second has added %d bytes, and the first %d", second.Status.Size, first.Status.Size)
	}
	s.delete(first)
	s.deleteOperator()
	s.eventually(readyIn, "the first is gone", func() error { return gone(s.get(first.Name, &platformv1.Backup{})) })
	copied := s.redis("copy", b.of(), snapshots, restoredFrom(second.Name))
	copied.ready()
	if got := copied.must("EVAL", sumKeys, "0"); got != sum {
		t.Errorf("the copy has the sum %s, want %s", got, sum)
	}
	s.delete(second)
	s.eventually(readyIn, "the second is gone", func() error { return gone(s.get(second.Name, &platformv1.Backup{})) })
}

// filesKept backs the files up.
func (i *instance) filesKept(name string) *platformv1.Backup {
	i.Helper()
	op := backupOf(name, "store", i.reference())
	op.Spec.Parameters["method"] = "files"
	i.create(op)
	return i.whole(name)
}
