// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// countsKeys loads an RDB file into a server of its own, which has to have as many keys as the first argument says, and
// the key of the second one.
const countsKeys = `cat >/tmp/dump.rdb || exit 1
redis-server --port 7777 --bind 127.0.0.1 --dir /tmp --save '' --daemonize yes >/dev/null || exit 1
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  keys=$(redis-cli -p 7777 DBSIZE 2>/dev/null)
  [ "${keys:-x}" -ge "$0" ] 2>/dev/null && [ "$(redis-cli -p 7777 GET "$1")" = "$1" ] && exit 0
  sleep 1
done
echo "it has ${keys:-no} keys, want $0" >&2
exit 1`

// countsRows unpacks a base backup and has a server of its own recover from it, whose table has to have as many rows as
// the first argument says.
const countsRows = `mkdir -m 0700 /tmp/data && tar -x -C /tmp/data || exit 1
rm -f /tmp/data/standby.signal
echo 'local all all trust' >/tmp/hba
programs=$(echo /usr/lib/postgresql/*/bin)
"$programs/postgres" -D /tmp/data -c listen_addresses= -c unix_socket_directories=/tmp -c hba_file=/tmp/hba \
  -c archive_mode=off >/tmp/log 2>&1 &
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
  rows=$("$programs/psql" -XAt -h /tmp -U postgres -d postgres -c 'SELECT count(*) FROM kept' 2>/dev/null)
  [ "${rows:-x}" = "$0" ] && kill %1 && exit 0
  sleep 1
done
echo "it has ${rows:-no} rows, want $0:" >&2
while read -r line; do echo "$line" >&2; done </tmp/log
exit 1`

// TestBackup backs instances up into a volume, under load, and looks at what is there with the middleware's own server.
func TestBackup(t *testing.T) {
	s := framework.NewNamespace(t, "backup")
	i := s.CreateRedis("cache", framework.WithReplicas(2), framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "known", "known")
	image := i.Pod().Spec.Containers[0].Image
	s.CreateRepository("store", image)
	t.Run("of a Redis that is written to", func(t *testing.T) { checkBackup(i.In(t)) })
	t.Run("that nobody can make", func(t *testing.T) { checkBadBackups(i.In(t)) })
	t.Run("whose mover is killed", func(t *testing.T) { checkMoverKilled(i.In(t)) })
	t.Run("that is cancelled", func(t *testing.T) { checkBackupCancelled(i.In(t)) })
	t.Run("of a PostgreSQL", func(t *testing.T) { checkBaseBackup(s.In(t)) })
	t.Run("while the operator is killed", func(t *testing.T) { checkBackupAndOperator(i.In(t)) })
	// What is left goes with the namespace.
}

func checkBackup(i *framework.Instance) {
	w := i.StartWriter()
	keys := i.MustDo("DBSIZE")
	i.Create(framework.NewBackupOperation("first", "store", i.Reference()))
	b := i.WaitForStoredBackup("first")
	w.Stop()
	w.StopAndVerify("writes during a backup", framework.SettleTimeout)
	if b.Status.Source.Role != "replica" || b.Status.Facts["role"] != "slave" {
		i.Errorf("the data is from %+v, facts %v", b.Status.Source, b.Status.Facts)
	}
	i.VerifyBackupData("judge-first", b, i.Pod(), framework.RedisComponent, countsKeys, keys, "known")
	noMovers(i)
	if files, found := i.BackupInRepository(b.Status.Key); !found || !strings.Contains(files, "manifest.json") {
		i.Errorf("in the repository there is %q", files)
	}
	i.Delete(b)
	i.Eventually(framework.ReadyTimeout, "the Backup is gone, and what was kept", func() error {
		if err := framework.ErrUnlessNotFound(i.Get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		if files, found := i.BackupInRepository(b.Status.Key); found {
			return fmt.Errorf("there is %s", files)
		}
		return nil
	})
}

// checkBadBackups: what cannot be is said at once, and touches nothing.
func checkBadBackups(i *framework.Instance) {
	i.Create(&platformv1.BackupRepository{ObjectMeta: framework.ObjectMeta("cloud"),
		Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
			Endpoint: "https://s3.example.com", Bucket: "backups",
			CredentialsSecretRef: platformv1.SecretReference{Name: "absent"}}}})
	for name, want := range map[string]string{"nowhere": "there is no BackupRepository",
		"cloud": `names Secret "absent", which is not there`} {
		i.Create(framework.NewBackupOperation("into-"+name, name, i.Reference()))
		if op := i.WaitForOperationEnd("into-"+name, framework.ErrorTimeout); op.Status.Phase != platformv1.OperationFailed ||
			!strings.Contains(op.Status.Error, want) {
			i.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
		}
	}
	op := framework.NewBackupOperation("by-magic", "store", i.Reference())
	op.Spec.Parameters["method"] = "magic"
	i.Create(op)
	if op := i.WaitForOperationEnd("by-magic", framework.ErrorTimeout); op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(op.Status.Error, `it has: "rdb"`) {
		i.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
	}
	by := &platformv1.Backup{ObjectMeta: framework.ObjectMeta("by-hand"),
		Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: i.Application()},
			RepositoryRef: platformv1.RepositoryReference{Name: "store"}, Method: "rdb"}}
	by.Spec.Timeout.Duration = framework.ReadyTimeout
	if err := i.TryCreate(by); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template Backup") {
		i.Errorf("a Backup by hand: %v", err)
	}
	noMovers(i)
}

// checkMoverKilled: a mover that is lost is a backup that failed, and the next one is none the worse.
func checkMoverKilled(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("lost", "store", i.Reference()))
	b := &platformv1.Backup{ObjectMeta: framework.ObjectMeta("lost-backup")}
	pod := i.MoverPod(b)
	i.Delete(pod, framework.GraceZero)
	if op := i.WaitForOperationEnd("lost", framework.ReadyTimeout); op.Status.Phase != platformv1.OperationFailed {
		i.Errorf("the Operation is %s", op.Status.Phase)
	}
	b = i.ExpectBackupFailed("lost-backup")
	if files, found := i.BackupInRepository(b.Status.Key); found {
		i.Errorf("what is left of it is %s", files)
	}
	i.Create(framework.NewBackupOperation("next", "store", i.Reference()))
	i.WaitForStoredBackup("next")
}

// checkBackupCancelled: nothing runs on, and nothing is left.
func checkBackupCancelled(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("dropped", "store", i.Reference()))
	b := &platformv1.Backup{ObjectMeta: framework.ObjectMeta("dropped-backup")}
	i.MoverPod(b)
	op := &platformv1.Operation{}
	i.MustGet("dropped", op)
	before := op.DeepCopy()
	op.Spec.Cancel = true
	if err := framework.Cluster.Client.Patch(i.Ctx, op, client.MergeFrom(before)); err != nil {
		i.Fatal(err)
	}
	i.Eventually(framework.ReadyTimeout, "the Operation has ended", func() error {
		if err := i.Get("dropped", op); err != nil {
			return err
		}
		switch op.Status.Phase {
		case platformv1.OperationCancelled, platformv1.OperationSucceeded:
			return nil
		}
		return fmt.Errorf("it is %s", op.Status.Phase)
	})
	if op.Status.Phase == platformv1.OperationSucceeded {
		i.Log("the backup was faster than the cancel")
		return
	}
	b = i.ExpectBackupFailed("dropped-backup")
	if files, found := i.BackupInRepository(b.Status.Key); found {
		i.Errorf("what is left of it is %s", files)
	}
	noMovers(i)
}

// checkBackupAndOperator: whoever goes on, one mover takes the data.
func checkBackupAndOperator(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("steady", "store", i.Reference()))
	b := &platformv1.Backup{ObjectMeta: framework.ObjectMeta("steady-backup")}
	i.MoverPod(b)
	i.DeleteOperatorPods()
	if whole := i.WaitForStoredBackup("steady"); whole.UID != b.UID {
		i.Errorf("it is another Backup: %s, and was %s", whole.UID, b.UID)
	}
	noMovers(i)
}

// noMovers waits until no Job of a Backup that did not fail is there.
func noMovers(i *framework.Instance) {
	i.Helper()
	i.Eventually(framework.ReadyTimeout, "no Jobs are there", func() error {
		var jobs batchv1.JobList
		if err := i.List(&jobs, nil); err != nil {
			return err
		}
		for _, job := range jobs.Items {
			if job.Status.Failed == 0 {
				return fmt.Errorf("there is %s", job.Name)
			}
		}
		return nil
	})
}

func checkBaseBackup(s *framework.Namespace) {
	spec := framework.NewPostgreSQLApplication(framework.PostgreSQLVersion)
	a := s.CreateApplication("pg", spec)
	a.WaitReady()
	pod := &a.Pods()[0]
	s.RunClient(framework.PostgreSQLClient, pod.Spec.Containers[0].Image)
	p := &framework.PostgreSQLApplication{Application: a, Client: framework.PostgreSQLClient}
	p.SQL("postgres", "CREATE TABLE kept AS SELECT n FROM generate_series(1, 100000) n")
	s.Create(framework.NewBackupOperation("base", "store", framework.CoreReference("Application", "pg")))
	b := s.WaitForStoredBackup("base")
	if b.Status.Facts["timeline"] == "" || b.Status.Facts["startLSN"] == "" || b.Status.Facts["stopLSN"] == "" {
		s.Errorf("the facts are %v", b.Status.Facts)
	}
	s.VerifyBackupData("judge-base", b, pod, framework.PostgreSQLComponent, countsRows, "100000")
}
