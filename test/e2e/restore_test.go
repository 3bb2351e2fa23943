// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

const (
	// putKeys writes 2,000 keys, and sumKeys says whether they are the same.
	putKeys = `for n = 1, 2000 do redis.call('SET', 'kept:' .. n, string.rep(n * n, 20)) end return 'done'`
	sumKeys = `local all = '' for n = 1, 2000 do all = redis.sha1hex(all .. (redis.call('GET', 'kept:' .. n) or 'nothing')) end return all`
	// sumRows says whether the rows are the same.
	sumRows = "SELECT md5(string_agg(n || s, ',' ORDER BY n)) FROM kept"
)

// restoredFrom has a Redis begin with a Backup.
func restoredFrom(backup string) setting {
	return func(spec *databasev1.RedisSpec) { spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup} }
}

// TestRestore makes instances that begin with the data of others, which was backed up under load.
func TestRestore(t *testing.T) {
	s := newSpace(t, "restore")
	i := s.redis("cache", withReplicas(1), safe())
	i.ready()
	s.shelf("store", i.pod().Spec.Containers[0].Image)
	i.must("EVAL", putKeys, "0")
	w := i.startWriter()
	i.create(backupOf("first", "store", i.reference()))
	i.whole("first")
	w.stop()
	w.judge("writes during a backup", settleIn)
	sum := i.must("EVAL", sumKeys, "0")
	t.Run("of a Redis with replicas into others", func(t *testing.T) { i.in(t).checkRestored(sum) })
	t.Run("whose mover is killed", func(t *testing.T) { i.in(t).checkRestorerKilled(sum) })
	t.Run("while the operator is killed", func(t *testing.T) { i.in(t).checkRestoreAndOperator(sum) })
	t.Run("that cannot be", func(t *testing.T) { i.in(t).checkBadRestores() })
	t.Run("of data that is damaged", func(t *testing.T) { i.in(t).checkDamagedRestore() })
	t.Run("of a PostgreSQL with replicas into another", func(t *testing.T) { s.in(t).checkRestoredPostgreSQL() })
	// What is left goes with the namespace.
}

// has waits until an instance is ready, and sees that it has the keys, before and after its pod is another one, and that it says where from.
func (i *instance) has(sum, backup string) {
	i.Helper()
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("Redis %q has the sum %s, want %s", i.name, got, sum)
	}
	if c := meta.FindStatusCondition(i.object().Status.Conditions, platformv1.RestoredCondition); c == nil || c.Reason != platformv1.ReasonRestored {
		i.Errorf("it says %s", describe(i.object().Status.Conditions))
	}
	app := &platformv1.Application{}
	i.mustGet(i.application(), app)
	if from := app.Status.RestoredFrom; from == nil || from.Backup != backup || from.Size == 0 {
		i.Errorf("its Application began with %+v", from)
	}
	i.must("SET", "new", "new")
	before := i.pod()
	i.delete(before)
	i.eventually(readyIn, "another pod is there", func() error {
		pod := &corev1.Pod{}
		if err := i.get(i.podName(), pod); err != nil {
			return err
		}
		if pod.UID == before.UID {
			return fmt.Errorf("it is still the same")
		}
		return nil
	})
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum || i.must("GET", "new") != "new" {
		i.Errorf("after its pod was replaced Redis %q has the sum %s, want %s", i.name, got, sum)
	}
}

func (i *instance) checkRestored(sum string) {
	for name, settings := range map[string][]setting{
		"copy":     {withReplicas(1), safe()},
		"alone":    {safe()},
		"snapshot": {func(spec *databasev1.RedisSpec) { spec.Persistence.Mode = databasev1.PersistenceRDB }},
	} {
		copied := i.redis(name, append(settings, restoredFrom("first-backup"))...)
		copied.ready()
		if name == "snapshot" {
			// What is on disk only now and then is not asked for after a pod.
			if got := copied.must("EVAL", sumKeys, "0"); got != sum {
				i.Errorf("Redis %q has the sum %s, want %s", name, got, sum)
			}
			continue
		}
		copied.has(sum, "first-backup")
	}
	// The passwords are those of each instance.
	if i.account().password == (&instance{space: i.space, name: "copy"}).account().password {
		i.Error("a restored instance has the password of the one before")
	}
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		i.Errorf("the source has the sum %s, and had %s", got, sum)
	}
}

// restorerOf waits until the pod is there that fills the volume of an instance, and returns it.
func (i *instance) restorerOf(backup string) *corev1.Pod {
	i.Helper()
	b := &platformv1.Backup{}
	i.mustGet(backup, b)
	var found *corev1.Pod
	i.eventually(settleIn, "a mover is there", func() error {
		var pods corev1.PodList
		if err := i.list(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID), platformv1.ApplicationLabel: i.application()}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("there is none; the instance says %s", describe(i.object().Status.Conditions))
		}
		found = &pods.Items[0]
		return nil
	})
	return found
}

// checkRestorerKilled: the next mover begins anew, and the instance has all.
func (i *instance) checkRestorerKilled(sum string) {
	late := i.redis("late", restoredFrom("first-backup"), safe())
	i.delete(late.restorerOf("first-backup"), graceZero)
	late.has(sum, "first-backup")
}

// checkRestoreAndOperator: whoever goes on, the instance has all.
func (i *instance) checkRestoreAndOperator(sum string) {
	steady := i.redis("steady", withReplicas(1), restoredFrom("first-backup"), safe())
	steady.restorerOf("first-backup")
	i.deleteOperator()
	steady.has(sum, "first-backup")
}

// held waits until an instance says why it does not begin, and sees that it has no pod.
func (i *instance) held(reason, says string) {
	i.Helper()
	i.eventually(errorIn, fmt.Sprintf("Redis %q says %s", i.name, reason), func() error {
		c := meta.FindStatusCondition(i.object().Status.Conditions, platformv1.ReadyCondition)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %s", describe(i.object().Status.Conditions))
		}
		return nil
	})
	if err := i.get(i.podName(), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
		i.Errorf("it has a pod: %v", err)
	}
}

// checkBadRestores: what cannot be is said at once, and a Backup that is not there is waited for.
func (i *instance) checkBadRestores() {
	i.redis("early", restoredFrom("second-backup"), safe()).held(platformv1.ReasonBackupNotFound, `there is no Backup "second-backup"`)
	refused := redisObject("other", restoredFrom("first-backup"))
	refused.Spec.Version = "8.0"
	if err := i.tryCreate(refused); err == nil {
		(&instance{space: i.space, name: "other"}).held(platformv1.ReasonRestoreRefused, "a restore keeps the major version")
	} else if !strings.Contains(err.Error(), "a restore keeps the major version") {
		i.Errorf("another major version: %v", err)
	}
	err := (&instance{space: i.space, name: "early"}).tryUpdate(restoredFrom("first-backup"))
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		i.Errorf("another Backup of an object that is there: %v", err)
	}
}

// checkDamagedRestore: data that is not what was kept starts nothing.
func (i *instance) checkDamagedRestore() {
	i.create(backupOf("damaged", "store", i.reference()))
	i.damage(i.whole("damaged"))
	i.redis("broken", restoredFrom("damaged-backup"), safe()).held(platformv1.ReasonRestoreFailed, "It is not tried again")
}

func (s *space) checkRestoredPostgreSQL() {
	spec := databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Replicas: 1, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB", "wal_keep_size": "64MB"},
		Databases:      []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: spec})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.following(1)
	pool := p.pool(login{database: "shop"})
	p.exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n", "CREATE TABLE load (n int)")
	sum, err := asks(p.ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := pool.Exec(p.ctx, "INSERT INTO load SELECT generate_series(1, 300000)")
		loaded <- err
	}()
	s.create(backupOf("base", "store", p.reference()))
	s.whole("base")
	if err := <-loaded; err != nil {
		s.Error(err)
	}
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "base-backup"}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("copy"), Spec: spec})
	restored := &pgInstance{space: s, name: "copy", ways: p.ways}
	restored.following(1)
	restored.answers(restored.pool(login{database: "shop"}), sum, sumRows)
	restored.answers(restored.pool(login{database: "shop", readOnly: true}), sum, sumRows)
	restored.exec(restored.pool(login{database: "shop"}), "INSERT INTO kept VALUES (0, 'new')")
	if p.binding()["password"] == restored.binding()["password"] {
		s.Error("the restored server has the password of the one before")
	}
	p.answers(pool, sum, sumRows)
}
