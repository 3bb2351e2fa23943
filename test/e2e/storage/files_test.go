// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// filesMethod keeps the snapshot of a Redis, which is put in place by a rename: each file makes sense alone.
const filesMethod = `    backups:
      - name: files
        files: {folder: /data, exclude: ["temp-*.rdb"]}
        restore: {folder: /data}
      - name: rdb
`

// TestBackupOfFiles has a plugin that was not there before keep the files of a volume, the second time what has changed
// alone, delete one of both, and has another instance begin with the other, also while the operator is killed.
func TestBackupOfFiles(t *testing.T) {
	s := framework.NewNamespace(t, "files")
	b := s.NewBundle()
	b.Replace("    backups:\n      - name: rdb\n", filesMethod)
	b.Install()
	b.ExpectAccepted()
	snapshots := func(spec *databasev1.RedisSpec) { spec.Persistence.Mode = databasev1.PersistenceRDB }
	i := s.CreateRedis("cache", b.Setting(), snapshots)
	i.WaitReady()
	// A volume of one node can be written from there alone, and so can that of the source be read.
	s.CreateRepositoryOnNode("store", i.Pod().Spec.Containers[0].Image,
		map[string]string{corev1.LabelHostname: i.Pod().Spec.NodeName})
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	i.MustDo("SAVE")
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	first := filesKept(i, "first")
	if first.Spec.Type != platformv1.BackupFiles || first.Status.RawSize < 10_000 || first.Status.Facts["files"] == "" {
		t.Errorf("it is %+v with %+v", first.Spec, first.Status)
	}
	second := filesKept(i, "second")
	if second.Status.Size*4 > first.Status.Size {
		t.Errorf("the second has added %d bytes, and the first %d", second.Status.Size, first.Status.Size)
	}
	s.Delete(first)
	s.DeleteOperatorPods()
	s.Eventually(framework.ReadyTimeout, "the first is gone",
		func() error { return framework.ErrUnlessNotFound(s.Get(first.Name, &platformv1.Backup{})) })
	copied := s.CreateRedis("copy", b.Setting(), snapshots, framework.WithRestoreFrom(second.Name))
	copied.WaitReady()
	if got := copied.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		t.Errorf("the copy has the sum %s, want %s", got, sum)
	}
	s.Delete(second)
	s.Eventually(framework.ReadyTimeout, "the second is gone",
		func() error { return framework.ErrUnlessNotFound(s.Get(second.Name, &platformv1.Backup{})) })
}

// filesKept backs the files up.
func filesKept(i *framework.Instance, name string) *platformv1.Backup {
	i.Helper()
	op := framework.NewBackupOperation(name, "store", i.Reference())
	op.Spec.Parameters["method"] = "files"
	i.Create(op)
	return i.WaitForStoredBackup(name)
}
