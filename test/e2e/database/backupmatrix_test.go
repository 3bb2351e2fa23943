// SPDX-License-Identifier: Apache-2.0

package database

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

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// cloudKills are how often each of those that make a backup is killed.
	cloudKills = 3
	// killsWithin is from when on a backup is over as a rule: they are killed at some moment before.
	killsWithin = 5 * time.Second
)

// TestBackupsInObjectStorage backs up each kind under load into an object storage of the suite's own that speaks TLS,
// restores it from there, into another one and in place, and has it verified; then movers, the operator and the storage
// are killed at any moment of a backup.
func TestBackupsInObjectStorage(t *testing.T) {
	s := framework.NewNamespace(t, "cloud")
	s.EnsureStorageOperator()
	store := CreateObjectStorageRepository(s, "store")
	t.Run("of a Redis Cluster", func(t *testing.T) { checkRedisClusterInCloud(s.In(t)) })
	t.Run("of a Redis", func(t *testing.T) { checkRedisInCloud(s.In(t)) })
	t.Run("of a PostgreSQL", func(t *testing.T) { checkPostgreSQLInCloud(s.In(t)) })
	t.Run("of a MySQL", func(t *testing.T) { checkMySQLInCloud(s.In(t)) })
	t.Run("while others are killed", func(t *testing.T) { checkKills(store.In(t)) })
	// What is left goes with the namespace.
}

// CreateObjectStorageRepository makes an object storage, with certificates of a CA of its own, and a repository of that
// name in a bucket of it.
func CreateObjectStorageRepository(s *framework.Namespace, repository string) *framework.ObjectStorage {
	s.Helper()
	return s.CreateObjectStorageRepositoryWithIssuer(s.CreateClusterIssuer(), repository)
}

func checkRedisInCloud(s *framework.Namespace) {
	i := s.CreateRedis("cache", framework.WithReplicas(1), framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("EVAL", framework.PutKeysScript, "0")
	i.MustDo("SET", "known", "known") // VerifyBackupInBucket looks for it.
	w := i.StartWriter()
	s.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	i.WaitForStoredBackup("first")
	w.Stop()
	w.StopAndVerify("writes during a backup into an object storage", framework.SettleTimeout)
	sum := i.MustDo("EVAL", framework.SumKeysScript, "0")
	copied := i.CreateRedis("copy", framework.WithReplicas(1), framework.WithFsyncAlways(),
		framework.WithRestoreFrom("first-backup"))
	copied.ExpectRestored(sum, "first-backup")
	i.Delete(copied.Object())
	i.MustDo("EVAL", spoilKeys, "0")
	s.Create(framework.NewRestoreOperation("back", "first-backup", i.Reference()))
	s.WaitForOperation("back")
	i.WaitReady()
	if got := i.MustDo("EVAL", framework.SumKeysScript, "0"); got != sum {
		s.Errorf("in place Redis %q has the sum %s, want %s", i.Name, got, sum)
	}
	VerifyByDrill(s, "good", "first-backup", i.Reference())
}

// VerifyByDrill has a Backup verified, and sees that nothing is left of that.
func VerifyByDrill(s *framework.Namespace, name, backup string, target platformv1.TargetReference) {
	s.Helper()
	drill := framework.NewDrillOperation(name, target)
	drill.Spec.Parameters = platformv1.Parameters{"backup": platformv1.ParameterValue(backup)}
	s.Create(drill)
	s.WaitForOperation(name)
	s.ExpectVerified(backup, name, platformv1.VerificationPassed, "found the data good")
	s.ExpectNoDrillLeftovers()
}

func checkRedisClusterInCloud(s *framework.Namespace) {
	r := createRedisCluster(s, "shop")
	r.ready()
	r.whole(3)
	r.putKept()
	sum, slots := r.sumKept(), r.slots()
	load := r.load()
	s.Create(framework.NewBackupOperation("shards", "store", r.reference()))
	if b := s.WaitForStoredBackup("shards"); len(b.Status.Sources) != 3 {
		s.Errorf("it was taken from %+v", b.Status.Sources)
	}
	load.judge(clusterFault{Fault: framework.Fault{Name: "a backup of a Redis Cluster into an object storage",
		Limit: writersGap}})
	copied := r.begun("shop-copy", "shards-backup")
	copied.has("shards-backup", sum, slots)
	// Others need the room.
	s.Delete(copied.object())
	VerifyByDrill(s, "shards-good", "shards-backup", r.reference())
	s.Create(framework.NewRestoreOperation("shards-back", "shards-backup", r.reference()))
	if op := s.WaitForOperationEnd("shards-back", framework.ErrorTimeout); op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(op.Status.Error, "make another instance with restoreFrom") {
		s.Errorf("a restore of a cluster in place is %s: %s", op.Status.Phase, op.Status.Error)
	}
	s.Delete(r.object())
}

func checkPostgreSQLInCloud(s *framework.Namespace) {
	checkRestoredPostgreSQL(s)
	p := &framework.PostgreSQLInstance{Namespace: s, Name: "db", PortForwards: s.NewPortForwards()}
	pool := p.Pool(framework.Login{Database: "shop"})
	sum, err := framework.Asks(s.Ctx, pool, sumRows)
	if err != nil {
		s.Fatal(err)
	}
	p.Exec(pool, "UPDATE kept SET s = 'spoilt'")
	s.Create(framework.NewRestoreOperation("rewind", "base-backup", p.Reference()))
	s.WaitForOperation("rewind")
	p.WaitReady()
	p.WaitForAnswer(p.Pool(framework.Login{Database: "shop"}), sum, sumRows)
	VerifyByDrill(s, "rows-good", "base-backup", p.Reference())
}

func checkMySQLInCloud(s *framework.Namespace) {
	m := newMySQL(s, "my")
	sum := m.fill()
	w := m.writesNumbers()
	s.Create(framework.NewBackupOperation("my-dump", "store", m.reference()))
	if b := s.WaitForStoredBackup("my-dump"); b.Spec.Method != "dump" || b.Status.Facts["databases"] != "1" {
		s.Errorf("the Backup is by %s, and says %v", b.Spec.Method, b.Status.Facts)
	}
	w.finish("a backup into an object storage", m.bound())
	spec := mysqlSpec(mysqlVersion)
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "my-dump-backup"}
	s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("my-copy"), Spec: spec})
	copied := m.beside("my-copy")
	copied.waitReady()
	copied.waitForAnswer(copied.bound(), sum, mysqlFilled)
	s.Delete(copied.object())
	m.exec(m.bound(), "UPDATE filled SET s = 'spoilt'")
	s.Create(framework.NewRestoreOperation("my-back", "my-dump-backup", m.reference()))
	s.WaitForOperation("my-back")
	m.waitReady()
	m.waitForAnswer(m.bound(), sum, mysqlFilled)
	VerifyByDrill(s, "my-good", "my-dump-backup", m.reference())
	s.Delete(m.object())
}

// checkKills: whoever is killed, and whenever, a Backup is whole or has failed and left nothing, and the next one goes
// through without anybody's help.
func checkKills(o *framework.ObjectStorage) {
	i := &framework.Instance{Namespace: o.Namespace, Name: "cache"}
	i.WaitReady()
	keeper := func() *minio.Client { return o.ClientAs(o.Pod("main", 0), "keeper", "key-of-the-keeper") }
	for who, kill := range map[string]func(*platformv1.Backup){
		"mover":    func(b *platformv1.Backup) { killMovers(o, b) },
		"operator": func(*platformv1.Backup) { o.DeleteOperatorPods() },
		"storage": func(*platformv1.Backup) {
			o.Delete(&corev1.Pod{ObjectMeta: framework.ObjectMeta(o.Pod("main", 0))}, framework.GraceZero)
			o.WaitReady()
		},
	} {
		for n := range cloudKills {
			name := fmt.Sprintf("%s-%d", who, n)
			o.Create(framework.NewBackupOperation(name, "store", i.Reference()))
			b := &platformv1.Backup{ObjectMeta: framework.ObjectMeta(name + "-backup")}
			moment := rand.N(killsWithin)
			o.Logf("the %s is killed %s after a backup was asked for", who, moment)
			<-time.After(moment)
			kill(b)
			ended := o.WaitForOperationEnd(name, 3*framework.ReadyTimeout)
			if ended.Status.Phase == platformv1.OperationSucceeded {
				o.MustGet(b.Name, b)
				o.Eventually(framework.ReadyTimeout, "the backup is as its manifest says",
					func() error { return framework.VerifyBackupInBucket(o.Ctx, keeper(), b) })
				continue
			}
			if err := o.Get(b.Name, b); client.IgnoreNotFound(err) != nil {
				o.Fatal(err)
			} else if err != nil {
				continue // It failed before there was one.
			}
			b = o.ExpectBackupFailed(b.Name)
			o.Eventually(framework.ReadyTimeout, "nothing is left of it", func() error {
				return framework.VerifyBucketEmpty(o.Ctx, keeper(), path.Join(framework.BackupPrefix, b.Status.Key)+"/")
			})
		}
	}
	o.Create(framework.NewBackupOperation("afterwards", "store", i.Reference()))
	b := o.WaitForStoredBackup("afterwards")
	if err := framework.VerifyBackupInBucket(o.Ctx, keeper(), b); err != nil {
		o.Error(err)
	}
	VerifyByDrill(o.Namespace, "afterwards-good", b.Name, i.Reference())
}

// killMovers ends what moves the data of a Backup, if anything does.
func killMovers(o *framework.ObjectStorage, b *platformv1.Backup) {
	o.Helper()
	if err := o.Get(b.Name, b); client.IgnoreNotFound(err) != nil {
		o.Fatal(err)
	}
	var pods corev1.PodList
	if err := o.List(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID)}); err != nil {
		o.Fatal(err)
	}
	o.Logf("%d movers of Backup %q are there", len(pods.Items), b.Name)
	for n := range pods.Items {
		// One that has ended meanwhile may be deleted.
		err := framework.Cluster.Client.Delete(o.Ctx, &pods.Items[n], framework.GraceZero)
		if client.IgnoreNotFound(err) != nil {
			o.Fatal(err)
		}
	}
}
