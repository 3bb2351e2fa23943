// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"path"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestBackupToObjectStorage keeps a backup in a storage of the suite's own that speaks TLS, as a user who has that
// bucket and nothing else, and reads it with nothing but an S3 client, SHA-256 and zstd.
func TestBackupToObjectStorage(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "backups3")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	o := s.CreateObjectStorage("store", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: framework.BackupBucket}}
		spec.Users = []storagev1.ObjectStorageUser{s.BackupUser("keeper", "ReadWrite"),
			s.BackupUser("visitor", "Read")}
	})
	i := s.CreateRedis("cache", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "known", "known")
	t.Logf("the storage is ready after %s", o.WaitReady())

	o.CreateRepository("cloud", "keeper")
	s.WaitForRepository("cloud", metav1.ConditionTrue)
	o.CreateRepository("closed", "visitor")
	if state := s.WaitForRepository("closed", metav1.ConditionFalse); state.Reason != mover.ReasonRefused {
		t.Errorf("of one who may only read it says %+v", state)
	}

	s.Create(framework.NewBackupOperation("first", "cloud", i.Reference()))
	b := i.WaitForStoredBackup("first")
	keeper := o.ClientAs(o.Pod("main", 0), "keeper", "key-of-the-keeper")
	o.Retry("the backup is as its manifest says", func() error { return framework.VerifyBackupInBucket(o.Ctx, keeper, b) })
	i.Delete(b)
	o.Eventually(framework.ReadyTimeout, "the Backup is gone, and what was kept", func() error {
		if err := framework.ErrUnlessNotFound(s.Get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		return framework.VerifyBucketEmpty(o.Ctx, keeper, path.Join(framework.BackupPrefix, b.Status.Key)+"/")
	})
}
