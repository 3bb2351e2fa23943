// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// shelved is a PostgreSQL that archives its log on the volume of a repository.
type shelved struct {
	*framework.PostgreSQLInstance
	pool *pgxpool.Pool
}

// TestPostgreSQLArchiveOnVolume has a PostgreSQL archive its log on the volume that its backups are on, under load, and
// another one begin with it at a point in time. The volume is one that a single node can mount: servers and movers are
// there together, each writes, and each reads what the others wrote.
func TestPostgreSQLArchiveOnVolume(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "pgshelf")
	a := &shelved{PostgreSQLInstance: &framework.PostgreSQLInstance{Namespace: s, Name: "db",
		PortForwards: s.NewPortForwards()}}
	s.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("db"), Spec: shelvedSpec()})
	a.WaitReady()
	a.connects()
	a.Exec(a.pool, "CREATE TABLE kept (n int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	before := a.server()
	// Data and archive have to be where one node reaches both.
	s.CreateRepositoryOnNode("store", before.Spec.Containers[0].Image,
		map[string]string{corev1.LabelHostname: before.Spec.NodeName})
	a.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Archive = shelvedArchive() })
	if now := a.server(); now.UID == before.UID || now.Labels[platformv1.ArchiveLabel] != "store" {
		t.Errorf("the pod is as it was, with the labels %v", now.Labels)
	}
	a.connects()
	a.says(platformv1.ArchiveFoundCondition, metav1.ConditionTrue, platformv1.ReasonArchiveFound)
	a.archives()

	load := a.load()
	s.Create(framework.NewBackupOperation("base", "store", a.Reference()))
	s.WaitForStoredBackup("base")
	load()
	a.Exec(a.pool, "INSERT INTO kept VALUES (2)")
	at, err := framework.Asks(a.Ctx, a.pool, sayTime)
	if err != nil {
		t.Fatal(err)
	}
	a.Exec(a.pool, "INSERT INTO kept VALUES (3)")
	a.archives()
	a.isShared()
	a.restoredAt(at)
	a.refusesReplicas()
	a.goesOnWithoutRepository()
	a.stopsArchiving()
}

func shelvedSpec() databasev1.PostgreSQLSpec {
	return databasev1.PostgreSQLSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: framework.PostgreSQLVersion,
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("1Gi")},
			Parameters: platformv1.Parameters{"max_connections": "40", "max_wal_size": "64MB", "min_wal_size": "32MB",
				"wal_keep_size": "64MB"},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		Databases: []databasev1.PostgreSQLDatabase{{Name: "shop"}},
	}
}

func shelvedArchive() *databasev1.LogArchive {
	return &databasev1.LogArchive{RepositoryRef: &platformv1.RepositoryReference{Name: "store"},
		Timeout: &metav1.Duration{Duration: 10 * time.Second}}
}

func (a *shelved) connects() {
	a.Helper()
	a.pool = a.PostgreSQLInstance.Pool(framework.Login{Database: "shop"})
}

// server is the pod of the instance.
func (a *shelved) server() *corev1.Pod {
	a.Helper()
	pod := &corev1.Pod{}
	a.MustGet(a.Application().Name+"-postgresql-main-0", pod)
	return pod
}

// says waits until a condition is what it is to be.
func (a *shelved) says(condition string, status metav1.ConditionStatus, reason string) {
	a.Helper()
	a.Eventually(alarmIn, fmt.Sprintf("%s is %s with %s", condition, status, reason), func() error {
		c := meta.FindStatusCondition(a.Object().Status.Conditions, condition)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it says %s", framework.Describe(a.Object().Status.Conditions))
		}
		return nil
	})
}

// archives waits until all that was written is archived.
func (a *shelved) archives() {
	a.Helper()
	a.Exec(a.pool, "CREATE TABLE IF NOT EXISTS more (n int)", "INSERT INTO more VALUES (1)")
	segment, err := framework.Asks(a.Ctx, a.pool, "SELECT pg_walfile_name(pg_switch_wal())")
	if err != nil {
		a.Fatal(err)
	}
	a.Eventually(framework.ReadyTimeout, "the log is archived", func() error {
		last, err := framework.Asks(a.Ctx, a.pool, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")
		if err == nil && last < segment {
			err = fmt.Errorf("up to %s, and not to %s: %s", last, segment, framework.Describe(a.Object().Status.Conditions))
		}
		return err
	})
	a.says("Archiving", metav1.ConditionTrue, "Archived")
}

// load writes until it is stopped.
func (a *shelved) load() (stop func()) {
	a.Exec(a.pool, "CREATE TABLE weight (x text)")
	done, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				// What fails while a connection is lost is written again.
				_, _ = a.pool.Exec(a.Ctx, "INSERT INTO weight SELECT repeat(md5(random()::text), 60) FROM generate_series(1, 200)")
			}
		}
	})
	return func() { close(done); ended.Wait() }
}

// isShared: what the server archived is of the group of the movers, who can read it, and make and remove folders
// beside.
func (a *shelved) isShared() {
	a.Helper()
	const look = `cd "$0" && find . -name '*.zst' -exec cat {} + >/dev/null && mkdir probe && rmdir probe && find . ` +
		`-name '*.zst' -exec stat -c '%g %a' {} + | sort | uniq -c`
	folder := mover.VolumePath + "/" + platformv1.ArchiveFolderFor("kept", a.Namespace.Name, a.Application().Name)
	out, err := framework.Run(a.Ctx, a.Namespace.Name, framework.RepositoryPod, framework.RepositoryPod, "", "sh", "-c",
		look, folder)
	if fields := strings.Fields(out); err != nil || len(fields) != 3 || fields[1] != fmt.Sprint(framework.MoverID) ||
		fields[2] != "640" {
		a.Errorf("in the repository there are %q: %v", out, err)
	}
}

// restoredAt has another instance begin at a time, by the log on the volume, and archive beside.
func (a *shelved) restoredAt(at string) {
	a.Helper()
	spec := shelvedSpec()
	spec.Archive = shelvedArchive()
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "base-backup",
		Target: &platformv1.RestoreTarget{Time: at, RepositoryRef: &platformv1.RepositoryReference{Name: "store"}}}
	a.Create(&databasev1.PostgreSQL{ObjectMeta: framework.ObjectMeta("again"), Spec: spec})
	b := &shelved{PostgreSQLInstance: &framework.PostgreSQLInstance{Namespace: a.Namespace, Name: "again",
		PortForwards: a.PortForwards}}
	b.WaitReady()
	b.connects()
	b.WaitForAnswer(b.pool, "1 2", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	b.archives()
	b.isShared()
	a.WaitForAnswer(a.pool, "1 2 3", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
}

// stays: the pod is the one that it was.
func (a *shelved) stays(was types.UID, whenever string) {
	a.Helper()
	if now := a.server(); now.UID != was {
		a.Errorf("the pod is another one %s", whenever)
	}
}

// refusesReplicas: pods on several nodes cannot mount the volume, and the one that there is goes on.
func (a *shelved) refusesReplicas() {
	a.Helper()
	was := a.server().UID
	if err := a.TryUpdate(func(spec *databasev1.PostgreSQLSpec) { spec.Replicas = 1 }); err != nil {
		a.Fatal(err)
	}
	a.says(platformv1.StalledCondition, metav1.ConditionTrue, platformv1.ReasonArchiveRefused)
	a.stays(was, "after replicas were refused")
	a.archives()
	a.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Replicas = 0 })
	a.stays(was, "after replicas were taken back")
}

// goesOnWithoutRepository: where its volume stays, nothing but a condition tells that a repository is gone.
func (a *shelved) goesOnWithoutRepository() {
	a.Helper()
	was := a.server().UID
	r := &platformv1.BackupRepository{}
	a.MustGet("store", r)
	a.Delete(r)
	a.says(platformv1.ArchiveFoundCondition, metav1.ConditionFalse, platformv1.ReasonRepositoryNotFound)
	a.WaitReady()
	a.archives()
	a.Create(&platformv1.BackupRepository{ObjectMeta: framework.ObjectMeta("store"), Spec: r.Spec})
	a.says(platformv1.ArchiveFoundCondition, metav1.ConditionTrue, platformv1.ReasonArchiveFound)
	a.stays(was, "after its repository was gone for a while")
}

// stopsArchiving: without an archive the pod has its volumes alone, and the data as it was.
func (a *shelved) stopsArchiving() {
	a.Helper()
	was := a.server().UID
	a.Update(func(spec *databasev1.PostgreSQLSpec) { spec.Archive = nil })
	if now := a.server(); now.UID == was || now.Labels[platformv1.ArchiveLabel] != "" {
		a.Errorf("the pod is as it was, with the labels %v", now.Labels)
	}
	a.connects()
	a.WaitForAnswer(a.pool, "1 2 3", "SELECT string_agg(n::text, ' ' ORDER BY n) FROM kept")
	if c := meta.FindStatusCondition(a.Object().Status.Conditions, platformv1.ArchiveFoundCondition); c != nil {
		a.Errorf("it says %+v", c)
	}
}
