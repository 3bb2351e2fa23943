// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// bySnapshot is the method that keeps data as VolumeSnapshots.
const bySnapshot = "snapshot"

// TestBackupsAsSnapshots proves that data which is kept as a VolumeSnapshot of a server under load is whole: an
// instance of another name begins with it, a drill finds it good, and it goes with its Backup.
func TestBackupsAsSnapshots(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "snapshotbackups")
	t.Run("of a Redis with a replica", func(t *testing.T) { checkRedisBySnapshot(s.In(t)) })
	t.Run("of a PostgreSQL with a replica", func(t *testing.T) { checkPostgreSQLBySnapshot(s.In(t)) })
	t.Run("of a MySQL", func(t *testing.T) { checkMySQLBySnapshot(s.In(t)) })
	t.Run("of a MySQLCluster", func(t *testing.T) { checkMySQLClusterBySnapshot(s.In(t)) })
}

// shot backs an instance up by a snapshot, and returns the Backup that is whole.
func shot(s *framework.Namespace, name string, of platformv1.TargetReference) *platformv1.Backup {
	s.Helper()
	s.Create(framework.NewOperation(name, "Backup", of, "method", bySnapshot))
	b := s.WaitForBackup(name)
	if b.Spec.RepositoryRef.Name != "" || len(b.Status.Snapshots) != 1 || b.Status.Snapshots[0].CreationTime == nil ||
		b.Status.Size == 0 {
		s.Errorf("Backup %s says %+v", b.Name, b.Status)
	}
	return b
}

// frozen is shot for middleware that keeps still meanwhile, in a replica.
func frozen(s *framework.Namespace, name string, of platformv1.TargetReference) *platformv1.Backup {
	s.Helper()
	b := shot(s, name, of)
	if b.Status.Source.Role != "replica" || b.Status.Hold == nil || b.Status.Hold.Phase != platformv1.HoldReleased {
		s.Errorf("Backup %s says %+v", b.Name, b.Status)
	}
	return b
}

// unshot deletes a Backup, and waits until its VolumeSnapshot is gone as well.
func unshot(s *framework.Namespace, b *platformv1.Backup) {
	s.Helper()
	s.Delete(b)
	s.Eventually(framework.ReadyTimeout, "the Backup is gone, and its VolumeSnapshot", func() error {
		if err := framework.ErrUnlessNotFound(s.Get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		snapshot := &unstructured.Unstructured{}
		snapshot.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1",
			Kind: "VolumeSnapshot"})
		return framework.ErrUnlessNotFound(s.Get(b.Status.Snapshots[0].Name, snapshot))
	})
}

// madeOf sees that a claim of an Application was made of the snapshot of a Backup.
func madeOf(s *framework.Namespace, application string, b *platformv1.Backup) {
	s.Helper()
	app := &platformv1.Application{}
	s.MustGet(application, app)
	for _, claim := range claimsOf(s, app) {
		if claim.Spec.DataSource != nil && claim.Spec.DataSource.Name == b.Status.Snapshots[0].Name {
			return
		}
	}
	s.Errorf("no volume of %s was made of VolumeSnapshot %s", application, b.Status.Snapshots[0].Name)
}

func checkRedisBySnapshot(s *framework.Namespace) {
	// The class gives more than a Redis of the tests asks for, and what is made of a snapshot has to ask for as much.
	large := func(spec *databasev1.RedisSpec) { spec.Storage.Size = resource.MustParse("320Mi") }
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways(), large)
	i.WaitReady()
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	w := i.StartWriter()
	w.WaitForWrite()
	b := frozen(s, "shot", i.Reference())
	if b.Status.Facts["appendonly"] != "yes" {
		s.Errorf("its facts are %v", b.Status.Facts)
	}
	// Clients notice nothing of it.
	w.Stop()
	w.StopAndVerify("writes during a backup", framework.SettleTimeout)
	again := s.CreateRedis("again", framework.WithReplicas(1), framework.WithFsyncAlways(), large,
		func(spec *databasev1.RedisSpec) { spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name} })
	again.WaitReady()
	madeOf(s, again.Application(), b)
	if got := again.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		s.Errorf("the sum is %s, and was %s", got, sum)
	}
	VerifyByDrill(s, "drill-shot", b.Name, i.Reference())
	unshot(s, b)
}

func checkPostgreSQLBySnapshot(s *framework.Namespace) {
	spec := databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version:    framework.PostgreSQLVersion,
			Storage:    platformv1.InstanceStorage{Size: resource.MustParse("512Mi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB"},
		},
		Replicas:  1,
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop"}},
	}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: spec})
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	p.WaitForReplicas(1)
	pool := p.Pool(framework.Login{Database: "shop"})
	p.Exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n",
		"CREATE TABLE numbers (n int)")
	sum, err := framework.Asks(p.Ctx, pool, sumRows)
	if err != nil || sum == "" {
		s.Fatalf("it has the sum %q: %v", sum, err)
	}
	w := p.StartWriter(pool)
	b := frozen(s, "shot-db", p.Reference())
	w.StopAndVerify("writes during a backup", framework.SettleTimeout)
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db-again"), Spec: spec})
	next := &framework.PostgreSQLInstance{Namespace: s, Name: "db-again", PortForwards: p.PortForwards}
	next.WaitForReplicas(1)
	madeOf(s, next.Application().Name, b)
	again := next.Pool(framework.Login{Database: "shop"})
	next.WaitForAnswer(again, sum, sumRows)
	next.Exec(again, "INSERT INTO kept VALUES (0, 'new')", "INSERT INTO numbers VALUES (-1)")
	VerifyByDrill(s, "drill-shot-db", b.Name, p.Reference())
	unshot(s, b)
}

func checkMySQLBySnapshot(s *framework.Namespace) {
	m := newMySQL(s, "my")
	shotOfMySQL(m, "primary", func(from *platformv1.RestoreFrom) client.Object {
		spec := mysqlSpec(mysqlVersion)
		spec.RestoreFrom = from
		return &databasev1.MySQL{ObjectMeta: framework.ObjectMeta("my-again"), Spec: spec}
	})
	s.Delete(m.object())
}

// checkMySQLClusterBySnapshot has a group begin with the data of a replica: one member has it, and the others copy it.
func checkMySQLClusterBySnapshot(s *framework.Namespace) {
	g := makeMySQLGroup(s, "group")
	g.waitReady()
	again := shotOfMySQL(g.mysqlInstance, "replica", func(from *platformv1.RestoreFrom) client.Object {
		spec := g.object().Spec
		spec.RestoreFrom = from
		// The members of the other group need the room.
		g.Delete(g.object())
		return &databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta("group-again"), Spec: spec}
	})
	for _, pod := range (&mysqlGroup{again}).members() {
		(&mysqlGroup{again}).waitForPod(&pod, "1", "SELECT COUNT(*) FROM app.numbers WHERE n = -1")
	}
}

// shotOfMySQL backs a server up that is written to, of a role. Nothing is frozen for it: what begins with the snapshot
// recovers as after a crash, and has all that was acknowledged before.
func shotOfMySQL(m *mysqlInstance, role string, again func(*platformv1.RestoreFrom) client.Object) *mysqlInstance {
	m.Helper()
	sum, w := m.fill(), m.writesNumbers()
	before := slices.Max(w.counts())
	b := shot(m.Namespace, "shot-"+m.name, m.reference())
	if b.Status.Source.Role != role || b.Status.Hold != nil {
		m.Errorf("Backup %s says %+v", b.Name, b.Status)
	}
	w.finish("a backup by a snapshot", m.bound())
	VerifyByDrill(m.Namespace, "drill-shot-"+m.name, b.Name, m.reference())
	m.Create(again(&platformv1.RestoreFrom{Backup: b.Name}))
	restored := m.beside(m.name + "-again")
	restored.waitReady()
	madeOf(m.Namespace, restored.application().Name, b)
	db := restored.bound()
	restored.waitForAnswer(db, sum, mysqlFilled)
	restored.waitForAnswer(db, "1", fmt.Sprintf("SELECT COUNT(*) >= %d FROM numbers", before))
	restored.exec(db, "INSERT INTO numbers VALUES (-1)")
	unshot(m.Namespace, b)
	return restored
}
