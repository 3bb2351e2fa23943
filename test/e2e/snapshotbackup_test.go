// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// bySnapshot is the method that keeps data as VolumeSnapshots.
const bySnapshot = "snapshot"

// TestBackupsAsSnapshots proves that data which is kept as a VolumeSnapshot of a server under load is whole: an instance of another name begins with it, a drill
// finds it good, and it goes with its Backup.
func TestBackupsAsSnapshots(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "snapshotbackups")
	t.Run("of a Redis with a replica", func(t *testing.T) { s.in(t).checkRedisBySnapshot() })
	t.Run("of a PostgreSQL with a replica", func(t *testing.T) { s.in(t).checkPostgreSQLBySnapshot() })
}

// shot backs an instance up by a snapshot, and returns the Backup that is whole.
func (s *space) shot(name string, of platformv1.TargetReference) *platformv1.Backup {
	s.Helper()
	s.create(operation(name, "Backup", of, "method", bySnapshot))
	b := s.completed(name)
	if b.Spec.RepositoryRef.Name != "" || len(b.Status.Snapshots) != 1 || b.Status.Snapshots[0].CreationTime == nil || b.Status.Size == 0 || b.Status.Source.Role != "replica" ||
		b.Status.Hold == nil || b.Status.Hold.Phase != platformv1.HoldReleased {
		s.Errorf("Backup %s says %+v", b.Name, b.Status)
	}
	return b
}

// unshot deletes a Backup, and waits until its VolumeSnapshot is gone as well.
func (s *space) unshot(b *platformv1.Backup) {
	s.Helper()
	s.delete(b)
	s.eventually(readyIn, "the Backup is gone, and its VolumeSnapshot", func() error {
		if err := gone(s.get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		snapshot := &unstructured.Unstructured{}
		snapshot.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"})
		return gone(s.get(b.Status.Snapshots[0].Name, snapshot))
	})
}

// madeOf sees that a claim of an Application was made of the snapshot of a Backup.
func (s *space) madeOf(application string, b *platformv1.Backup) {
	s.Helper()
	app := &platformv1.Application{}
	s.mustGet(application, app)
	for _, claim := range s.claimsOf(app) {
		if claim.Spec.DataSource != nil && claim.Spec.DataSource.Name == b.Status.Snapshots[0].Name {
			return
		}
	}
	s.Errorf("no volume of %s was made of VolumeSnapshot %s", application, b.Status.Snapshots[0].Name)
}

func (s *space) checkRedisBySnapshot() {
	// The class gives more than a Redis of the tests asks for, and what is made of a snapshot has to ask for as much.
	large := func(spec *databasev1.RedisSpec) { spec.Storage.Size = resource.MustParse("320Mi") }
	i := s.redis("cache", withReplicas(1), safe(), large)
	i.ready()
	i.must("EVAL", putKeys, "0")
	sum := i.must("EVAL", sumKeys, "0")
	w := i.startWriter()
	w.resumed()
	b := s.shot("shot", i.reference())
	if b.Status.Facts["appendonly"] != "yes" {
		s.Errorf("its facts are %v", b.Status.Facts)
	}
	// Clients notice nothing of it.
	w.stop()
	w.judge("writes during a backup", settleIn)
	again := s.redis("again", withReplicas(1), safe(), large, func(spec *databasev1.RedisSpec) { spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name} })
	again.ready()
	s.madeOf(again.application(), b)
	if got := again.must("EVAL", sumKeys, "0"); got != sum {
		s.Errorf("the sum is %s, and was %s", got, sum)
	}
	s.drilled("drill-shot", b.Name, i.reference())
	s.unshot(b)
}

func (s *space) checkPostgreSQLBySnapshot() {
	spec := databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Replicas: 1, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB"},
		Databases:  []databasev1.PostgreSQLDatabase{{Name: "shop"}},
	}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: spec})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.following(1)
	pool := p.pool(login{database: "shop"})
	p.exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n", "CREATE TABLE numbers (n int)")
	sum, err := asks(p.ctx, pool, sumRows)
	if err != nil || sum == "" {
		s.Fatalf("it has the sum %q: %v", sum, err)
	}
	w := p.startWriter(pool)
	b := s.shot("shot-db", p.reference())
	w.judge("writes during a backup", settleIn)
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db-again"), Spec: spec})
	next := &pgInstance{space: s, name: "db-again", ways: p.ways}
	next.following(1)
	s.madeOf(next.application().name, b)
	again := next.pool(login{database: "shop"})
	next.answers(again, sum, sumRows)
	next.exec(again, "INSERT INTO kept VALUES (0, 'new')", "INSERT INTO numbers VALUES (-1)")
	s.drilled("drill-shot-db", b.Name, p.reference())
	s.unshot(b)
}
