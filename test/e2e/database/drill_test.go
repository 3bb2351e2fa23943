// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestRestoreDrill has Backups verified in instances that are removed again: good ones, one that is damaged, and one
// whose operator is killed meanwhile.
func TestRestoreDrill(t *testing.T) {
	s := framework.NewNamespace(t, "drill")
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	s.CreateRepository("store", i.Pod().Spec.Containers[0].Image)
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	i.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	i.WaitForStoredBackup("first")
	t.Run("of a Redis", func(t *testing.T) { checkDrill(i.In(t)) })
	t.Run("that is cancelled", func(t *testing.T) { checkDrillCancelled(i.In(t)) })
	t.Run("while the operator is killed", func(t *testing.T) { checkDrillAndOperator(i.In(t)) })
	t.Run("of data that is damaged", func(t *testing.T) { checkDamagedDrill(i.In(t)) })
	t.Run("of a PostgreSQL", func(t *testing.T) { checkDrillOfPostgreSQL(s.In(t)) })
	// What is left goes with the namespace.
}

// saysVerified waits until an instance says what the last drill of its Backups came to.
func saysVerified(i *framework.Instance, status metav1.ConditionStatus, says string) {
	i.Helper()
	i.Eventually(framework.SettleTimeout, "it says what the drill came to", func() error {
		c := meta.FindStatusCondition(i.Object().Status.Conditions, platformv1.BackupsVerifiedCondition)
		if c == nil || c.Status != status || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", framework.Describe(i.Object().Status.Conditions))
		}
		return nil
	})
}

// copyOf waits until the instance of a drill is there, and returns it.
func copyOf(s *framework.Namespace, drill string) *platformv1.Application {
	s.Helper()
	app := &platformv1.Application{}
	s.Eventually(framework.SettleTimeout, "the drill has made an instance", func() error {
		op := &platformv1.Operation{}
		if err := s.Get(drill, op); err != nil {
			return err
		}
		if len(op.Status.Steps) == 0 || op.Status.Steps[0].Outputs["instance"] == "" {
			return fmt.Errorf("it is %s: %+v", op.Status.Phase, op.Status.Steps)
		}
		return s.Get(op.Status.Steps[0].Outputs["instance"], app)
	})
	return app
}

func checkDrill(i *framework.Instance) {
	i.Create(framework.NewDrillOperation("good", i.Reference()))
	app := copyOf(i.Namespace, "good")
	if app.Labels[platformv1.DrillLabel] != i.Application() ||
		app.Spec.DeletionPolicy != platformv1.DeletionPolicyDelete || len(app.Spec.Schedules) != 0 {
		i.Errorf("its instance is %+v", app)
	}
	// A backup waits for no drill.
	i.Create(framework.NewBackupOperation("meanwhile", "store", i.Reference()))
	i.WaitForStoredBackup("meanwhile")
	i.WaitForOperation("good")
	i.ExpectVerified("first-backup", "good", platformv1.VerificationPassed, "found the data good")
	saysVerified(i, metav1.ConditionTrue, `Backup "first-backup"`)
	i.ExpectNoDrillLeftovers()
	verify := &platformv1.Operation{}
	i.MustGet("good-verify", verify)
	if keys := verify.Status.Steps[0].Outputs["keys"]; keys != "2000" {
		i.Errorf("it has read %q keys: %+v", keys, verify.Status)
	}
}

func checkDrillCancelled(i *framework.Instance) {
	op := framework.NewDrillOperation("cancelled", i.Reference())
	i.Create(op)
	copyOf(i.Namespace, "cancelled")
	before := op.DeepCopy()
	op.Spec.Cancel = true
	if err := framework.Cluster.Client.Patch(i.Ctx, op, client.MergeFrom(before)); err != nil {
		i.Fatal(err)
	}
	i.Eventually(3*framework.ReadyTimeout, "it is cancelled", func() error {
		if err := i.Get("cancelled", op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationCancelled {
			return fmt.Errorf("it is %s at %s", op.Status.Phase, op.Status.Progress)
		}
		return nil
	})
	i.ExpectNoDrillLeftovers()
}

func checkDrillAndOperator(i *framework.Instance) {
	op := framework.NewDrillOperation("steady", i.Reference())
	op.Spec.Parameters = platformv1.Parameters{"backup": "first-backup"}
	i.Create(op)
	copyOf(i.Namespace, "steady")
	i.DeleteOperatorPods()
	i.WaitForOperation("steady")
	i.ExpectVerified("first-backup", "steady", platformv1.VerificationPassed, "found the data good")
	i.ExpectNoDrillLeftovers()
}

// checkDamagedDrill: bytes that are not what they were are found, and told where people look.
func checkDamagedDrill(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("damaged", "store", i.Reference()))
	i.DamageBackup(i.WaitForStoredBackup("damaged"))
	i.Create(framework.NewDrillOperation("bad", i.Reference()))
	if ended := i.WaitForOperationEnd("bad", 3*framework.ReadyTimeout); ended.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(ended.Status.Error, `Backup "damaged-backup" is not good`) {
		i.Errorf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
	i.ExpectVerified("damaged-backup", "bad", platformv1.VerificationFailed, "cannot be restored")
	saysVerified(i, metav1.ConditionFalse, `Backup "damaged-backup" is not good`)
	i.ExpectNoDrillLeftovers()
	i.WaitReady()
}

func checkDrillOfPostgreSQL(s *framework.Namespace) {
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "64MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop"}},
	}})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitReady()
	target := p.Reference()
	s.Create(framework.NewBackupOperation("rows", "store", target))
	s.WaitForStoredBackup("rows")
	s.Create(framework.NewDrillOperation("rows-good", target))
	s.WaitForOperation("rows-good")
	s.ExpectVerified("rows-backup", "rows-good", platformv1.VerificationPassed, "found the data good")
	verify := &platformv1.Operation{}
	s.MustGet("rows-good-verify", verify)
	// postgres, shop and template1.
	if databases := verify.Status.Steps[0].Outputs["databases"]; databases != "4" {
		s.Errorf("it has read %q databases: %+v", databases, verify.Status)
	}
	s.ExpectNoDrillLeftovers()
}
