// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestRestoreDrill has Backups verified in instances that are removed again: good ones, one that is damaged, and one whose operator is killed meanwhile.
func TestRestoreDrill(t *testing.T) {
	s := newSpace(t, "drill")
	i := s.redis("cache", withReplicas(1), safe())
	i.ready()
	s.shelf("store", i.pod().Spec.Containers[0].Image)
	i.must("EVAL", putKeys, "0")
	i.create(backupOf("first", "store", i.reference()))
	i.whole("first")
	t.Run("of a Redis", func(t *testing.T) { i.in(t).checkDrill() })
	t.Run("that is cancelled", func(t *testing.T) { i.in(t).checkDrillCancelled() })
	t.Run("while the operator is killed", func(t *testing.T) { i.in(t).checkDrillAndOperator() })
	t.Run("of data that is damaged", func(t *testing.T) { i.in(t).checkDamagedDrill() })
	t.Run("of a PostgreSQL", func(t *testing.T) { s.in(t).checkDrillOfPostgreSQL() })
	// What is left goes with the namespace.
}

// drillOf returns an Operation that verifies the newest Backup of a target.
func drillOf(name string, target platformv1.TargetReference) *platformv1.Operation {
	return &platformv1.Operation{ObjectMeta: named(name), Spec: platformv1.OperationSpec{TemplateRef: "VerifyBackup", TargetRef: target, Timeout: &metav1.Duration{Duration: 3 * readyIn}}}
}

// verified checks what a Backup says of a drill.
func (s *space) verified(backup, operation string, outcome platformv1.VerificationOutcome, says string) {
	s.Helper()
	b := &platformv1.Backup{}
	s.mustGet(backup, b)
	if v := b.Status.Verified; v == nil || v.Outcome != outcome || v.Operation != operation || !strings.Contains(v.Message, says) {
		s.Errorf("Backup %q says %+v, want %s by %s: %s", backup, v, outcome, operation, says)
	}
}

// nothingOfDrills sees that no drill has left anything: instances, pods, volumes, Services, Secrets.
func (s *space) nothingOfDrills() {
	s.Helper()
	s.eventually(settleIn, "nothing is left of drills", func() error {
		var left []string
		for _, list := range []client.ObjectList{
			&platformv1.ApplicationList{}, &platformv1.ComponentList{}, &platformv1.WorkloadSetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
			&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		} {
			if err := s.list(list, nil); err != nil {
				return err
			}
			objects, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if name := object.(client.Object).GetName(); strings.HasPrefix(name, "drill-") || strings.Contains(name, "-drill-") {
					left = append(left, fmt.Sprintf("%T %s", object, name))
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// saysVerified waits until an instance says what the last drill of its Backups came to.
func (i *instance) saysVerified(status metav1.ConditionStatus, says string) {
	i.Helper()
	i.eventually(settleIn, "it says what the drill came to", func() error {
		c := meta.FindStatusCondition(i.object().Status.Conditions, platformv1.BackupsVerifiedCondition)
		if c == nil || c.Status != status || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", describe(i.object().Status.Conditions))
		}
		return nil
	})
}

// copyOf waits until the instance of a drill is there, and returns it.
func (s *space) copyOf(drill string) *platformv1.Application {
	s.Helper()
	app := &platformv1.Application{}
	s.eventually(settleIn, "the drill has made an instance", func() error {
		op := &platformv1.Operation{}
		if err := s.get(drill, op); err != nil {
			return err
		}
		if len(op.Status.Steps) == 0 || op.Status.Steps[0].Outputs["instance"] == "" {
			return fmt.Errorf("it is %s: %+v", op.Status.Phase, op.Status.Steps)
		}
		return s.get(op.Status.Steps[0].Outputs["instance"], app)
	})
	return app
}

func (i *instance) checkDrill() {
	i.create(drillOf("good", i.reference()))
	app := i.copyOf("good")
	if app.Labels[platformv1.DrillLabel] != i.application() || app.Spec.DeletionPolicy != platformv1.DeletionPolicyDelete || len(app.Spec.Schedules) != 0 {
		i.Errorf("its instance is %+v", app)
	}
	// A backup waits for no drill.
	i.create(backupOf("meanwhile", "store", i.reference()))
	i.whole("meanwhile")
	i.passes("good")
	i.verified("first-backup", "good", platformv1.VerificationPassed, "found the data good")
	i.saysVerified(metav1.ConditionTrue, `Backup "first-backup"`)
	i.nothingOfDrills()
	verify := &platformv1.Operation{}
	i.mustGet("good-verify", verify)
	if keys := verify.Status.Steps[0].Outputs["keys"]; keys != "2000" {
		i.Errorf("it has read %q keys: %+v", keys, verify.Status)
	}
}

func (i *instance) checkDrillCancelled() {
	op := drillOf("cancelled", i.reference())
	i.create(op)
	i.copyOf("cancelled")
	before := op.DeepCopy()
	op.Spec.Cancel = true
	if err := world.client.Patch(i.ctx, op, client.MergeFrom(before)); err != nil {
		i.Fatal(err)
	}
	i.eventually(3*readyIn, "it is cancelled", func() error {
		if err := i.get("cancelled", op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationCancelled {
			return fmt.Errorf("it is %s at %s", op.Status.Phase, op.Status.Progress)
		}
		return nil
	})
	i.nothingOfDrills()
}

func (i *instance) checkDrillAndOperator() {
	op := drillOf("steady", i.reference())
	op.Spec.Parameters = platformv1.Parameters{"backup": "first-backup"}
	i.create(op)
	i.copyOf("steady")
	i.deleteOperator()
	i.passes("steady")
	i.verified("first-backup", "steady", platformv1.VerificationPassed, "found the data good")
	i.nothingOfDrills()
}

// checkDamagedDrill: bytes that are not what they were are found, and told where people look.
func (i *instance) checkDamagedDrill() {
	i.create(backupOf("damaged", "store", i.reference()))
	i.damage(i.whole("damaged"))
	i.create(drillOf("bad", i.reference()))
	if ended := i.finished("bad", 3*readyIn); ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, `Backup "damaged-backup" is not good`) {
		i.Errorf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	i.verified("damaged-backup", "bad", platformv1.VerificationFailed, "cannot be restored")
	i.saysVerified(metav1.ConditionFalse, `Backup "damaged-backup" is not good`)
	i.nothingOfDrills()
	i.ready()
}

func (s *space) checkDrillOfPostgreSQL() {
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "64MB"},
		Databases:      []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.ready()
	target := p.reference()
	s.create(backupOf("rows", "store", target))
	s.whole("rows")
	s.create(drillOf("rows-good", target))
	s.passes("rows-good")
	s.verified("rows-backup", "rows-good", platformv1.VerificationPassed, "found the data good")
	verify := &platformv1.Operation{}
	s.mustGet("rows-good-verify", verify)
	// postgres, shop and template1.
	if databases := verify.Status.Steps[0].Outputs["databases"]; databases != "3" {
		s.Errorf("it has read %q databases: %+v", databases, verify.Status)
	}
	s.nothingOfDrills()
}
