// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestEverythingIsGone has nothing left of an instance, its Backups and their repository but what is kept on a volume.
// A repository that imports has the Backups again, an instance begins with one, and one that is damaged is named.
func TestEverythingIsGone(t *testing.T) {
	s := framework.NewNamespace(t, "gone")
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	s.CreateRepository("store", i.Pod().Spec.Containers[0].Image)
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	var lost []*platformv1.Backup
	for _, name := range []string{"first", "second"} {
		operation := framework.NewBackupOperation(name, "store", i.Reference())
		operation.Spec.Parameters["deletionPolicy"] = "Retain"
		operation.Spec.Parameters["compression"] = "Gzip"
		i.Create(operation)
		lost = append(lost, i.WaitForStoredBackup(name))
	}
	const cuts = `cd "$0" && rm */data-00001`
	if _, err := framework.Run(s.Ctx, s.Name, framework.RepositoryPod, framework.RepositoryPod, "", "sh", "-c", cuts,
		mover.VolumePath+"/kept/"+lost[1].Status.Key); err != nil {
		t.Fatal(err)
	}
	i.Delete(i.Object())
	for _, b := range lost {
		s.Delete(b)
	}
	s.Delete(&platformv1.BackupRepository{ObjectMeta: framework.ObjectMeta("store")})
	s.Eventually(framework.ReadyTimeout, "the instance, its Backups and their repository are gone", func() error {
		for _, b := range lost {
			if err := framework.ErrUnlessNotFound(s.Get(b.Name, &platformv1.Backup{})); err != nil {
				return err
			}
		}
		if err := framework.ErrUnlessNotFound(s.Get("store", &platformv1.BackupRepository{})); err != nil {
			return err
		}
		return framework.ErrUnlessNotFound(s.Get(i.Application(), &platformv1.Application{}))
	})

	s.Create(&platformv1.BackupRepository{ObjectMeta: framework.ObjectMeta("store"), Spec: platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: framework.RepositoryPod, Prefix: "kept"},
		Import:                &platformv1.BackupImport{},
	}})
	s.WaitForRepository("store", metav1.ConditionTrue)
	s.Eventually(framework.ReadyTimeout, "all that is kept was looked at", func() error {
		r := &platformv1.BackupRepository{}
		if err := s.Get("store", r); err != nil {
			return err
		}
		inventory := r.Inventory()
		if inventory == nil || inventory.Import == nil || inventory.Import.Time == nil {
			return fmt.Errorf("it says %+v", r.Status.Domains)
		}
		if got := inventory.Import; got.Imported != 1 || got.Failed != 1 || got.Failures[0].Key != lost[1].Status.Key ||
			got.Failures[0].Reason != mover.ReasonDamaged {
			t.Errorf("the import has come to %+v", got)
		}
		return nil
	})
	b := &platformv1.Backup{}
	s.Eventually(framework.SettleTimeout, "the Backup says what is kept of it", func() error {
		if err := s.Get(platformv1.ImportedBackupNameFor(lost[0].Status.Key), b); err != nil {
			return err
		}
		if b.Status.Phase != platformv1.BackupCompleted || b.Status.Digest != lost[0].Status.Digest ||
			b.Status.RawSize != lost[0].Status.RawSize {
			return fmt.Errorf("it is %+v", b.Status)
		}
		return nil
	})
	again := s.CreateRedis("again", framework.WithReplicas(1), framework.WithFsyncAlways(),
		framework.WithRestoreFrom(b.Name))
	again.ExpectRestored(sum, b.Name)
}
