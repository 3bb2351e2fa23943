// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

const (
	// cloudKills are how often each of those that make a backup is killed.
	cloudKills = 3
	// killsWithin is from when on a backup is over as a rule: they are killed at some moment before.
	killsWithin = 5 * time.Second
)

// TestBackupsInObjectStorage backs up each kind under load into an object storage of the suite's own that speaks TLS, restores it from there, into another one
// and in place, and has it verified; then movers, the operator and the storage are killed at any moment of a backup.
func TestBackupsInObjectStorage(t *testing.T) {
	s := newSpace(t, "cloud")
	s.storageOperatorServes()
	store := s.cloud("store")
	t.Run("of a Redis Cluster", func(t *testing.T) { s.in(t).checkRedisClusterInCloud() })
	t.Run("of a Redis", func(t *testing.T) { s.in(t).checkRedisInCloud() })
	t.Run("of a PostgreSQL", func(t *testing.T) { s.in(t).checkPostgreSQLInCloud() })
	t.Run("while others are killed", func(t *testing.T) { store.in(t).checkKills() })
	// What is left goes with the namespace.
}

// cloud makes an object storage, with certificates of a CA of its own, and a repository of that name in a bucket of it.
func (s *space) cloud(repository string) *objectStorage {
	s.Helper()
	return s.cloudOf(s.clusterIssuer(), repository)
}

// cloudOf makes the same with certificates of an issuer.
func (s *space) cloudOf(issuer *platformv1.IssuerReference, repository string) *objectStorage {
	s.Helper()
	o := s.objectStorage("cloud", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: backupBucket}}
		spec.Users = []storagev1.ObjectStorageUser{s.backupUser("keeper", storagev1.GrantReadWrite)}
	})
	o.ready()
	o.repository(repository, "keeper")
	o.repositorySays(repository, "True")
	return o
}

func (s *space) checkRedisInCloud() {
	i := s.redis("cache", withReplicas(1), safe())
	i.ready()
	i.must("EVAL", putKeys, "0")
	i.must("SET", "known", "known") // readsBack looks for it.
	w := i.startWriter()
	s.create(backupOf("first", "store", i.reference()))
	i.whole("first")
	w.stop()
	w.judge("writes during a backup into an object storage", settleIn)
	sum := i.must("EVAL", sumKeys, "0")
	copied := i.redis("copy", withReplicas(1), safe(), restoredFrom("first-backup"))
	copied.has(sum, "first-backup")
	i.delete(copied.object())
	i.must("EVAL", spoilKeys, "0")
	s.create(restoreOf("back", "first-backup", i.reference()))
	s.passes("back")
	i.ready()
	if got := i.must("EVAL", sumKeys, "0"); got != sum {
		s.Errorf("in place Redis %q has the sum %s, want %s", i.name, got, sum)
	}
	s.drilled("good", "first-backup", i.reference())
}

// drilled has a Backup verified, and sees that nothing is left of that.
func (s *space) drilled(name, backup string, target platformv1.TargetReference) {
	s.Helper()
	drill := drillOf(name, target)
	drill.Spec.Parameters = platformv1.Parameters{"backup": platformv1.ParameterValue(backup)}
	s.create(drill)
	s.passes(name)
	s.verified(backup, name, platformv1.VerificationPassed, "found the data good")
	s.nothingOfDrills()
}

func (s *space) checkRedisClusterInCloud() {
	r := s.redisCluster("shop")
	r.ready()
	r.whole(3)
	r.putKept()
	sum, slots := r.sumKept(), r.slots()
	load := r.load()
	s.create(backupOf("shards", "store", r.reference()))
	if b := s.whole("shards"); len(b.Status.Sources) != 3 {
		s.Errorf("it was taken from %+v", b.Status.Sources)
	}
	load.judge(clusterFault{fault: fault{name: "a backup of a Redis Cluster into an object storage", limit: writersGap}})
	copied := r.begun("shop-copy", "shards-backup")
	copied.has("shards-backup", sum, slots)
	// Others need the room.
	s.delete(copied.object())
	s.drilled("shards-good", "shards-backup", r.reference())
	s.create(restoreOf("shards-back", "shards-backup", r.reference()))
	if op := s.finished("shards-back", errorIn); op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, "make another instance with restoreFrom") {
		s.Errorf("a restore of a cluster in place is %s: %s", op.Status.Phase, op.Status.Error)
	}
	s.delete(r.object())
}

func (s *space) checkPostgreSQLInCloud() {
	s.checkRestoredPostgreSQL()
	p := &pgInstance{space: s, name: "db", ways: s.ways()}
	pool := p.pool(login{database: "shop"})
	sum, err := asks(s.ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	p.exec(pool, "UPDATE kept SET s = 'spoilt'")
	s.create(restoreOf("rewind", "base-backup", p.reference()))
	s.passes("rewind")
	p.ready()
	p.answers(p.pool(login{database: "shop"}), sum, sumRows)
	s.drilled("rows-good", "base-backup", p.reference())
}

// checkKills: whoever is killed, and whenever, a Backup is whole or has failed and left nothing, and the next one goes through without anybody's help.
func (o *objectStorage) checkKills() {
	i := &instance{space: o.space, name: "cache"}
	i.ready()
	keeper := func() *minio.Client { return o.as(o.pod("main", 0), "keeper", "key-of-the-keeper") }
	for who, kill := range map[string]func(*platformv1.Backup){
		"mover":    func(b *platformv1.Backup) { o.killMovers(b) },
		"operator": func(*platformv1.Backup) { o.deleteOperator() },
		"storage": func(*platformv1.Backup) {
			o.delete(&corev1.Pod{ObjectMeta: named(o.pod("main", 0))}, graceZero)
			o.ready()
		},
	} {
		for n := range cloudKills {
			name := fmt.Sprintf("%s-%d", who, n)
			o.create(backupOf(name, "store", i.reference()))
			b := &platformv1.Backup{ObjectMeta: named(name + "-backup")}
			moment := rand.N(killsWithin)
			o.Logf("the %s is killed %s after a backup was asked for", who, moment)
			<-time.After(moment)
			kill(b)
			ended := o.finished(name, 3*readyIn)
			if ended.Status.Phase == platformv1.OperationSucceeded {
				o.mustGet(b.Name, b)
				o.eventually(readyIn, "the backup is as its manifest says", func() error { return readsBack(o.ctx, keeper(), b) })
				continue
			}
			if err := o.get(b.Name, b); client.IgnoreNotFound(err) != nil {
				o.Fatal(err)
			} else if err != nil {
				continue // It failed before there was one.
			}
			b = o.failed(b.Name)
			o.eventually(readyIn, "nothing is left of it", func() error {
				return holdsNothing(o.ctx, keeper(), path.Join(backupPrefix, b.Status.Key)+"/")
			})
		}
	}
	o.create(backupOf("afterwards", "store", i.reference()))
	b := o.whole("afterwards")
	if err := readsBack(o.ctx, keeper(), b); err != nil {
		o.Error(err)
	}
	o.drilled("afterwards-good", b.Name, i.reference())
}

// killMovers ends what moves the data of a Backup, if anything does.
func (o *objectStorage) killMovers(b *platformv1.Backup) {
	o.Helper()
	if err := o.get(b.Name, b); client.IgnoreNotFound(err) != nil {
		o.Fatal(err)
	}
	var pods corev1.PodList
	if err := o.list(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID)}); err != nil {
		o.Fatal(err)
	}
	o.Logf("%d movers of Backup %q are there", len(pods.Items), b.Name)
	for n := range pods.Items {
		o.delete(&pods.Items[n], graceZero)
	}
}
