// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestVolumeSnapshots proves that instances under the policy Snapshot leave a VolumeSnapshot of each volume and no volume, and that what is made anew under
// their names begins with all that was acknowledged before.
func TestVolumeSnapshots(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "snapshots")
	t.Run("of a Redis with a replica", func(t *testing.T) { s.in(t).checkSnapshottedRedis() })
	t.Run("of a PostgreSQL with a replica", func(t *testing.T) { s.in(t).checkSnapshottedPostgreSQL() })
}

// snapshots are the VolumeSnapshots that an Application left, by the claims that they are of.
func (s *space) snapshots(of *platformv1.Application) map[string]unstructured.Unstructured {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotList"})
	if err := world.client.List(s.ctx, list, client.InNamespace(s.name), client.MatchingLabels{platformv1.ApplicationUIDLabel: string(of.UID)}); err != nil {
		s.Fatal(err)
	}
	left := map[string]unstructured.Unstructured{}
	for _, one := range list.Items {
		left[one.GetAnnotations()[platformv1.ClaimAnnotation]] = one
	}
	return left
}

// claimsOf are the claims of an Application, by name.
func (s *space) claimsOf(app *platformv1.Application) map[string]corev1.PersistentVolumeClaim {
	s.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := world.client.List(s.ctx, &list, client.InNamespace(s.name), client.MatchingLabels{platformv1.ApplicationUIDLabel: string(app.UID)}); err != nil {
		s.Fatal(err)
	}
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		claims[claim.Name] = claim
	}
	return claims
}

// leavesSnapshots deletes an object, and waits until its volumes are gone and there is a snapshot of each that is ready to use. It returns the Application that
// the object was made into.
func (s *space) leavesSnapshots(obj client.Object, application string, volumes int) *platformv1.Application {
	s.Helper()
	app := &platformv1.Application{}
	s.mustGet(application, app)
	was := s.claimsOf(app)
	if len(was) != volumes {
		s.Fatalf("there are %d volumes, want %d", len(was), volumes)
	}
	s.delete(obj)
	s.eventually(readyIn, "the volumes are gone", func() error {
		if left := s.claimsOf(app); len(left) > 0 {
			return fmt.Errorf("there are the claims of %d volumes, and %d snapshots", len(left), len(s.snapshots(app)))
		}
		return gone(s.get(application, &platformv1.Application{}))
	})
	left := s.snapshots(app)
	for name := range was {
		one := left[name]
		if ready, _, _ := unstructured.NestedBool(one.Object, "status", "readyToUse"); !ready {
			s.Errorf("claim %s is gone, and what is left is %v", name, one.Object)
		}
	}
	return app
}

// beganWith sees that each volume of an Application was made of a snapshot that another one left.
func (s *space) beganWith(application string, former *platformv1.Application) {
	s.Helper()
	app, left := &platformv1.Application{}, s.snapshots(former)
	s.mustGet(application, app)
	for name, claim := range s.claimsOf(app) {
		snapshot := left[name]
		if source := claim.Spec.DataSource; source == nil || source.Name != snapshot.GetName() {
			s.Errorf("claim %s begins with %+v, and there is VolumeSnapshot %s", name, source, snapshot.GetName())
		}
	}
}

func (s *space) checkSnapshottedRedis() {
	// The class gives more than a Redis of the tests asks for, and what is made of a snapshot has to ask for as much.
	large := func(spec *databasev1.RedisSpec) { spec.Storage.Size = resource.MustParse("320Mi") }
	settings := []setting{withReplicas(1), safe(), large, deletionPolicy(platformv1.DeletionPolicySnapshot)}
	i := s.redis("cache", settings...)
	i.ready()
	i.must("EVAL", putKeys, "0")
	w := i.startWriter()
	w.resumed()
	w.stop()
	w.judge("writes before a deletion", settleIn)
	sum := i.must("EVAL", sumKeys, "0")
	former := s.leavesSnapshots(i.object(), i.application(), 2)
	again := s.redis("cache", append(settings, func(spec *databasev1.RedisSpec) { spec.AdoptVolumes = string(former.UID) })...)
	again.ready()
	s.beganWith(again.application(), former)
	if got := again.must("EVAL", sumKeys, "0"); got != sum {
		s.Errorf("the sum is %s, and was %s", got, sum)
	}
	if lost := w.lost(); lost > 0 {
		s.Errorf("%d acknowledged writes are not there", lost)
	}
}

func (s *space) checkSnapshottedPostgreSQL() {
	spec := databasev1.PostgreSQLSpec{
		Version: postgresqlVersion, Replicas: 1, Storage: databasev1.PostgreSQLStorage{Size: resource.MustParse("512Mi")},
		Parameters:     platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB"},
		Databases:      []databasev1.PostgreSQLDatabase{{Name: "shop"}},
		DeletionPolicy: platformv1.DeletionPolicySnapshot,
	}
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: spec})
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	p.following(1)
	pool := p.pool(login{database: "shop"})
	p.exec(pool, "CREATE TABLE kept AS SELECT n, md5(n::text) AS s FROM generate_series(1, 100000) n", "CREATE TABLE numbers (n int)")
	w := p.startWriter(pool)
	w.judge("writes before a deletion", settleIn)
	sums := make([]string, 2)
	const sumNumbers = "SELECT md5(string_agg(n::text, ',' ORDER BY n)) FROM numbers"
	for n, statement := range []string{sumRows, sumNumbers} {
		var err error
		if sums[n], err = asks(p.ctx, pool, statement); err != nil || strings.TrimSpace(sums[n]) == "" {
			s.Fatalf("it has the sum %q: %v", sums[n], err)
		}
	}
	former := s.leavesSnapshots(p.object(), p.application().name, 2)
	spec.AdoptVolumes = string(former.UID)
	s.create(&databasev1.PostgreSQL{ObjectMeta: named("db"), Spec: spec})
	p.following(1)
	s.beganWith(p.application().name, former)
	again := p.pool(login{database: "shop"})
	p.answers(again, sums[0], sumRows)
	p.answers(again, sums[1], sumNumbers)
	p.exec(again, "INSERT INTO kept VALUES (0, 'new')")
}
