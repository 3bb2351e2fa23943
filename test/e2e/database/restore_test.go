// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// sumRows says whether the rows are the same.
const sumRows = "SELECT md5(string_agg(n || s, ',' ORDER BY n)) FROM kept"

// TestRestore makes instances that begin with the data of others, which was backed up under load.
func TestRestore(t *testing.T) {
	s := framework.NewNamespace(t, "restore")
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	s.CreateRepository("store", i.Pod().Spec.Containers[0].Image)
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	w := i.StartWriter()
	i.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	i.WaitForStoredBackup("first")
	w.Stop()
	w.StopAndVerify("writes during a backup", framework.SettleTimeout)
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	t.Run("of a Redis with replicas into others", func(t *testing.T) { checkRestored(i.In(t), sum) })
	t.Run("whose mover is killed", func(t *testing.T) { checkRestorerKilled(i.In(t), sum) })
	t.Run("while the operator is killed", func(t *testing.T) { checkRestoreAndOperator(i.In(t), sum) })
	t.Run("that cannot be", func(t *testing.T) { checkBadRestores(i.In(t)) })
	t.Run("of data that is damaged", func(t *testing.T) { checkDamagedRestore(i.In(t)) })
	t.Run("of a PostgreSQL with replicas into another", func(t *testing.T) { checkRestoredPostgreSQL(s.In(t)) })
	// What is left goes with the namespace.
}

func checkRestored(i *framework.Instance, sum string) {
	for name, settings := range map[string][]framework.Setting{
		"copy":     {framework.WithReplicas(1), framework.WithFsyncAlways()},
		"alone":    {framework.WithFsyncAlways()},
		"snapshot": {func(spec *databasev1.RedisSpec) { spec.Persistence.Mode = databasev1.PersistenceRDB }},
	} {
		copied := i.CreateRedis(name, append(settings, framework.WithRestoreFrom("first-backup"))...)
		copied.WaitReady()
		if name == "snapshot" {
			// What is on disk only now and then is not asked for after a pod.
			if got := copied.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
				i.Errorf("Redis %q has the sum %s, want %s", name, got, sum)
			}
			continue
		}
		copied.ExpectRestored(sum, "first-backup")
	}
	// The passwords are those of each instance.
	if i.Account().Password == (&framework.Instance{Namespace: i.Namespace, Name: "copy"}).Account().Password {
		i.Error("a restored instance has the password of the one before")
	}
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		i.Errorf("the source has the sum %s, and had %s", got, sum)
	}
}

// restorerOf waits until the pod is there that fills the volume of an instance, and returns it.
func restorerOf(i *framework.Instance, backup string) *corev1.Pod {
	i.Helper()
	b := &platformv1.Backup{}
	i.MustGet(backup, b)
	var found *corev1.Pod
	i.Eventually(framework.SettleTimeout, "a mover is there", func() error {
		var pods corev1.PodList
		if err := i.List(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID),
			platformv1.ApplicationLabel: i.Application()}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("there is none; the instance says %s", framework.Describe(i.Object().Status.Conditions))
		}
		found = &pods.Items[0]
		return nil
	})
	return found
}

// checkRestorerKilled: the next mover begins anew, and the instance has all.
func checkRestorerKilled(i *framework.Instance, sum string) {
	late := i.CreateRedis("late", framework.WithRestoreFrom("first-backup"), framework.WithFsyncAlways())
	i.Delete(restorerOf(late, "first-backup"), framework.GraceZero)
	late.ExpectRestored(sum, "first-backup")
}

// checkRestoreAndOperator: whoever goes on, the instance has all.
func checkRestoreAndOperator(i *framework.Instance, sum string) {
	steady := i.CreateRedis("steady", framework.WithReplicas(1), framework.WithRestoreFrom("first-backup"),
		framework.WithFsyncAlways())
	restorerOf(steady, "first-backup")
	i.DeleteOperatorPods()
	steady.ExpectRestored(sum, "first-backup")
}

// held waits until an instance says why it does not begin, and sees that it has no pod.
func held(i *framework.Instance, reason, says string) {
	i.Helper()
	i.Eventually(framework.ErrorTimeout, fmt.Sprintf("Redis %q says %s", i.Name, reason), func() error {
		c := meta.FindStatusCondition(i.Object().Status.Conditions, platformv1.ReadyCondition)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", framework.Describe(i.Object().Status.Conditions))
		}
		return nil
	})
	if err := i.Get(i.PodName(), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
		i.Errorf("it has a pod: %v", err)
	}
}

// checkBadRestores: what cannot be is said at once, and a Backup that is not there is waited for.
func checkBadRestores(i *framework.Instance) {
	held(i.CreateRedis("early", framework.WithRestoreFrom("second-backup"), framework.WithFsyncAlways()),
		platformv1.ReasonBackupNotFound, `there is no Backup "second-backup"`)
	refused := framework.NewRedis("other", framework.WithRestoreFrom("first-backup"))
	refused.Spec.Version = "8.0"
	if err := i.TryCreate(refused); err == nil {
		held((&framework.Instance{Namespace: i.Namespace, Name: "other"}), platformv1.ReasonRestoreRefused,
			"a restore keeps the major version")
	} else if !strings.Contains(err.Error(), "a restore keeps the major version") {
		i.Errorf("another major version: %v", err)
	}
	err := (&framework.Instance{Namespace: i.Namespace, Name: "early"}).TryUpdate(
		framework.WithRestoreFrom("first-backup"))
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		i.Errorf("another Backup of an object that is there: %v", err)
	}
}

// checkDamagedRestore: data that is not what was kept starts nothing.
func checkDamagedRestore(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("damaged", "store", i.Reference()))
	i.DamageBackup(i.WaitForStoredBackup("damaged"))
	held(i.CreateRedis("broken", framework.WithRestoreFrom("damaged-backup"), framework.WithFsyncAlways()),
		platformv1.ReasonRestoreFailed, "It is not tried again")
}

func checkRestoredPostgreSQL(s *framework.Namespace) {
	spec := databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "64MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Replicas:  1,
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop"}},
	}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: spec})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(1)
	pool := p.Pool(framework.Login{Database: "shop"})
	p.Exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n",
		"CREATE TABLE load (n int)")
	sum, err := framework.Asks(p.Ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := pool.Exec(p.Ctx, "INSERT INTO load SELECT generate_series(1, 300000)")
		loaded <- err
	}()
	s.Create(framework.NewBackupOperation("base", "store", p.Reference()))
	s.WaitForStoredBackup("base")
	if err := <-loaded; err != nil {
		s.Error(err)
	}
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "base-backup"}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("copy"), Spec: spec})
	restored := &framework.PostgreSQLInstance{Namespace: s, Name: "copy", PortForwards: p.PortForwards}
	restored.WaitForReplicas(1)
	restored.WaitForAnswer(restored.Pool(framework.Login{Database: "shop"}), sum, sumRows)
	restored.WaitForAnswer(restored.Pool(framework.Login{Database: "shop", ReadOnly: true}), sum, sumRows)
	restored.Exec(restored.Pool(framework.Login{Database: "shop"}), "INSERT INTO kept VALUES (0, 'new')")
	if p.SuperuserPassword() == restored.SuperuserPassword() || p.Binding()["password"] == restored.Binding()["password"] {
		s.Error("the restored server has a password of the one before")
	}
	p.WaitForAnswer(restored.Pool(framework.Login{Bound: true}), "app", "SELECT current_database()::text")
	p.WaitForAnswer(pool, sum, sumRows)
}
