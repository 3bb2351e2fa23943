// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestEverythingIsGone has nothing left of an instance, its Backups and their repository but what is kept on a volume. A repository that imports has the Backups
// again, an instance begins with one, and one that is damaged is named.
func TestEverythingIsGone(t *testing.T) {
	s := newSpace(t, "gone")
	i := s.redis("cache", withReplicas(1), safe())
	i.ready()
	s.shelf("store", i.pod().Spec.Containers[0].Image)
	i.must("EVAL", putKeys, "0")
	sum := i.must("EVAL", sumKeys, "0")
	var lost []*platformv1.Backup
	for _, name := range []string{"first", "second"} {
		operation := backupOf(name, "store", i.reference())
		operation.Spec.Parameters["deletionPolicy"] = "Retain"
		operation.Spec.Parameters["compression"] = "Gzip"
		i.create(operation)
		lost = append(lost, i.whole(name))
	}
	const cuts = `cd "$0" && rm */data-00001`
	if _, err := run(s.ctx, s.name, shelfName, shelfName, "", "sh", "-c", cuts, mover.VolumePath+"/kept/"+lost[1].Status.Key); err != nil {
		t.Fatal(err)
	}
	i.delete(i.object())
	for _, b := range lost {
		s.delete(b)
	}
	s.delete(&platformv1.BackupRepository{ObjectMeta: named("store")})
	s.eventually(readyIn, "the instance, its Backups and their repository are gone", func() error {
		for _, b := range lost {
			if err := gone(s.get(b.Name, &platformv1.Backup{})); err != nil {
				return err
			}
		}
		if err := gone(s.get("store", &platformv1.BackupRepository{})); err != nil {
			return err
		}
		return gone(s.get(i.application(), &platformv1.Application{}))
	})

	s.create(&platformv1.BackupRepository{ObjectMeta: named("store"), Spec: platformv1.BackupRepositorySpec{
		PersistentVolumeClaim: &platformv1.VolumeRepository{ClaimName: shelfName, Prefix: "kept"}, Import: &platformv1.BackupImport{},
	}})
	s.repositorySays("store", metav1.ConditionTrue)
	s.eventually(readyIn, "all that is kept was looked at", func() error {
		r := &platformv1.BackupRepository{}
		if err := s.get("store", r); err != nil {
			return err
		}
		inventory := r.Inventory()
		if inventory == nil || inventory.Import == nil || inventory.Import.Time == nil {
			return fmt.Errorf("it says %+v", r.Status.Domains)
		}
		if got := inventory.Import; got.Imported != 1 || got.Failed != 1 || got.Failures[0].Key != lost[1].Status.Key || got.Failures[0].Reason != mover.ReasonDamaged {
			t.Errorf("the import has come to %+v", got)
		}
		return nil
	})
	b := &platformv1.Backup{}
	s.eventually(settleIn, "the Backup says what is kept of it", func() error {
		if err := s.get(platformv1.ImportedBackupNameFor(lost[0].Status.Key), b); err != nil {
			return err
		}
		if b.Status.Phase != platformv1.BackupCompleted || b.Status.Digest != lost[0].Status.Digest || b.Status.RawSize != lost[0].Status.RawSize {
			return fmt.Errorf("it is %+v", b.Status)
		}
		return nil
	})
	again := s.redis("again", withReplicas(1), safe(), restoredFrom(b.Name))
	again.has(sum, b.Name)
}
