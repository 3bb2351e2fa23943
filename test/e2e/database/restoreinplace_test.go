// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// spoilKeys changes the keys that SumKeysScript looks at.
const spoilKeys = `for n = 1, 2000 do redis.call('SET', 'kept:' .. n, 'spoilt') end return 'done'`

// TestRestoreInPlace puts the data of Backups in the place of what instances have.
func TestRestoreInPlace(t *testing.T) {
	s := framework.NewNamespace(t, "inplace")
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	s.CreateRepository("store", i.Pod().Spec.Containers[0].Image)
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	i.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	i.WaitForStoredBackup("first")
	i.MustDo("EVAL", spoilKeys, "0")
	t.Run("of data that is damaged", func(t *testing.T) { checkDamagedInPlace(i.In(t)) })
	t.Run("that is cancelled", func(t *testing.T) { checkCancelledInPlace(i.In(t)) })
	t.Run("that is cancelled when the pods have gone", func(t *testing.T) { checkReturned(i.In(t)) })
	t.Run("of a Redis with replicas", func(t *testing.T) { checkInPlace(i.In(t), sum) })
	t.Run("of a PostgreSQL alone", func(t *testing.T) { checkPostgreSQLInPlace(s.In(t)) })
	t.Run("of a MySQL", func(t *testing.T) { checkMySQLInPlace(s.In(t)) })
	// What is left goes with the namespace.
}

// volumes are the claims of an instance.
func volumes(s *framework.Namespace, application string) []string {
	s.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := s.List(&list, client.MatchingLabels{platformv1.ApplicationLabel: application}); err != nil {
		s.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// servesKeys checks that a Redis goes on with the data and the pods that it has.
func servesKeys(i *framework.Instance, sum string, before types.UID) {
	i.Helper()
	i.WaitReady()
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		i.Errorf("it has the sum %s, and had %s", got, sum)
	}
	if pod := i.Pod(); pod.UID != before {
		i.Error("its pod is another one")
	}
	if left := volumes(i.Namespace, i.Application()); len(left) != 2 {
		i.Errorf("there are the volumes %v", left)
	}
}

// checkDamagedInPlace: what is not as it was kept changes nothing, and neither does what is not there.
func checkDamagedInPlace(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("damaged", "store", i.Reference()))
	b := i.WaitForStoredBackup("damaged")
	const breaks = `cd "$0" && for f in */data-*; do printf damaged | dd of="$f" bs=1 seek=100 conv=notrunc 2>/dev/null ` +
		`|| exit 1; done`
	if _, err := framework.Run(i.Ctx, i.Namespace.Name, framework.RepositoryPod, framework.RepositoryPod, "", "sh", "-c",
		breaks, mover.VolumePath+"/kept/"+b.Status.Key); err != nil {
		i.Fatal(err)
	}
	before, sum := i.Pod().UID, i.MustDo("EVAL", framework.SumKeysScript, "0")
	for name, says := range map[string]string{"damaged-backup": mover.ReasonDamaged, "nowhere": "there is no Backup"} {
		i.Create(framework.NewRestoreOperation("of-"+name, name, i.Reference()))
		ended := i.WaitForOperationEnd("of-"+name, 3*framework.ReadyTimeout)
		if ended.Status.Phase != platformv1.OperationFailed || !strings.Contains(ended.Status.Error, says) {
			i.Errorf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
		}
		servesKeys(i, sum, before)
	}
}

// checkCancelledInPlace: until the swap the instance goes on as if nobody had asked.
func checkCancelledInPlace(i *framework.Instance) {
	before, sum := i.Pod().UID, i.MustDo("EVAL", framework.SumKeysScript, "0")
	op := framework.NewRestoreOperation("taken-back", "first-backup", i.Reference())
	i.Create(op)
	restorerOf(i, "first-backup")
	if err := framework.Cluster.Client.Patch(i.Ctx, op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		i.Fatal(err)
	}
	cancelled(i, op)
	servesKeys(i, sum, before)
}

// checkReturned: until it is opened, all that was acknowledged before the pods ended is there again: also what the
// safety copy, which is taken under load, does not have.
func checkReturned(i *framework.Instance) {
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	w := i.StartWriter()
	op := framework.NewRestoreOperation("regretted", "first-backup", i.Reference())
	i.Create(op)
	i.Eventually(3*framework.ReadyTimeout, "its pods go to the restored data", func() error {
		if err := i.Get(op.Name, op); err != nil {
			return err
		}
		for _, step := range op.Status.Steps {
			if step.Name == "swap" && step.Phase == platformv1.OperationRunning {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %s", op.Status.Phase, op.Status.Error)
	})
	if err := framework.Cluster.Client.Patch(i.Ctx, op,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`))); err != nil {
		i.Fatal(err)
	}
	cancelled(i, op)
	i.WaitReady()
	w.Stop()
	w.StopAndVerify("writes while a restore is taken back", 3*framework.ReadyTimeout)
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		i.Errorf("it has the sum %s, and had %s", got, sum)
	}
	if left := volumes(i.Namespace, i.Application()); len(left) != 2 {
		i.Errorf("there are the volumes %v", left)
	}
}

// cancelled waits until an Operation is.
func cancelled(i *framework.Instance, op *platformv1.Operation) {
	i.Helper()
	i.Eventually(framework.ReadyTimeout, "it is cancelled", func() error {
		if err := i.Get(op.Name, op); err != nil {
			return err
		}
		if op.Status.Phase != platformv1.OperationCancelled {
			return fmt.Errorf("it is %s: %s", op.Status.Phase, op.Status.Error)
		}
		return nil
	})
}

// checkInPlace: a mover and the operator are killed on the way, and the instance has all of the Backup, under the
// password that it had.
func checkInPlace(i *framework.Instance, sum string) {
	before, password, spoilt := i.Pod().UID, i.Account().Password, i.MustDo("EVAL", framework.SumKeysScript, "0")
	i.Create(framework.NewRestoreOperation("back", "first-backup", i.Reference()))
	i.Delete(restorerOf(i, "first-backup"), framework.GraceZero)
	i.DeleteOperatorPods()
	i.WaitForOperation("back")
	i.WaitReady()
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		i.Errorf("it has the sum %s, want %s", got, sum)
	}
	if i.Pod().UID == before || i.Account().Password != password {
		i.Error("its pod is the same, or its password another one")
	}
	i.Eventually(framework.ReadyTimeout, "the previous volumes are gone", func() error {
		if left := volumes(i.Namespace, i.Application()); len(left) != 2 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	// A replica has copied it: it has all when it takes over.
	i.Create(&platformv1.Operation{ObjectMeta: framework.ObjectMeta("over"),
		Spec: platformv1.OperationSpec{TemplateRef: "Switchover", TargetRef: i.Reference()}})
	i.WaitForOperation("over")
	i.WaitReady()
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		i.Errorf("after a switchover it has the sum %s, want %s", got, sum)
	}
	// And what it had is in the safety copy.
	op := &platformv1.Operation{}
	i.MustGet("back", op)
	copied := op.Status.Steps[1].Outputs["backup"]
	again := framework.NewRestoreOperation("forth", copied, i.Reference())
	again.Spec.Parameters["safetyCopy"] = "Skip"
	i.Create(again)
	i.WaitForOperation("forth")
	i.WaitReady()
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != spoilt {
		i.Errorf("from its safety copy it has the sum %s, want %s", got, spoilt)
	}
}

func checkPostgreSQLInPlace(s *framework.Namespace) {
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
	pool := p.Pool(framework.Login{Database: "shop"})
	p.Exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n")
	sum, err := framework.Asks(p.Ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	s.Create(framework.NewBackupOperation("base", "store", p.Reference()))
	s.WaitForStoredBackup("base")
	p.Exec(pool, "UPDATE kept SET s = 'spoilt'")
	password, superuser := p.Binding()["password"], p.SuperuserPassword()
	s.Create(framework.NewRestoreOperation("rewind", "base-backup", p.Reference()))
	s.WaitForOperation("rewind")
	p.WaitReady()
	restored := p.Pool(framework.Login{Database: "shop"})
	p.WaitForAnswer(restored, sum, sumRows)
	p.Exec(restored, "INSERT INTO kept VALUES (0, 'new')")
	p.WaitForAnswer(p.Pool(framework.Login{Bound: true}), "app", "SELECT current_database()::text")
	if p.Binding()["password"] != password || p.SuperuserPassword() != superuser {
		s.Error("one of its passwords is another one")
	}
}

func checkMySQLInPlace(s *framework.Namespace) {
	m := newMySQL(s, "my")
	sum := m.fill()
	s.Create(framework.NewBackupOperation("my-dump", "store", m.reference()))
	s.WaitForStoredBackup("my-dump")
	m.exec(m.bound(), "UPDATE filled SET s = 'spoilt'", "CREATE TABLE later (n INT PRIMARY KEY)")
	spoilt, err := m.asks(m.bound(), mysqlFilled)
	if err != nil {
		s.Fatal(err)
	}
	password, root := m.binding()["password"], m.credential("root")["password"]
	s.Create(framework.NewRestoreOperation("my-back", "my-dump-backup", m.reference()))
	s.WaitForOperation("my-back")
	m.waitReady()
	m.waitForAnswer(m.bound(), sum, mysqlFilled)
	m.waitForAnswer(m.bound(), "0",
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'app' AND table_name = 'later'")
	m.waitForAnswer(m.client("root", root, ""), "1", "SELECT COUNT(*) FROM mysql.user WHERE User = 'app'")
	if m.binding()["password"] != password || m.credential("root")["password"] != root {
		s.Error("one of its passwords is another one")
	}
	m.Eventually(framework.ReadyTimeout, "the previous volume is gone", func() error {
		if left := volumes(s, m.application().Name); len(left) != 1 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	// What it had is in the safety copy.
	op := &platformv1.Operation{}
	s.MustGet("my-back", op)
	s.Create(framework.NewRestoreOperation("my-forth", op.Status.Steps[1].Outputs["backup"], m.reference()))
	s.WaitForOperation("my-forth")
	m.waitReady()
	m.waitForAnswer(m.bound(), spoilt, mysqlFilled)
	m.exec(m.bound(), "INSERT INTO filled VALUES (0, 'new')")
}
