// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// countsKeys loads an RDB file into a server of its own, which has to have as many keys as the first argument says, and the key of the second one.
const countsKeys = `cat >/tmp/dump.rdb || exit 1
redis-server --port 7777 --bind 127.0.0.1 --dir /tmp --save '' --daemonize yes >/dev/null || exit 1
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  keys=$(redis-cli -p 7777 DBSIZE 2>/dev/null)
  [ "${keys:-x}" -ge "$0" ] 2>/dev/null && [ "$(redis-cli -p 7777 GET "$1")" = "$1" ] && exit 0
  sleep 1
done
echo "it has ${keys:-no} keys, want $0" >&2
exit 1`

// countsRows unpacks a base backup and has a server of its own recover from it, whose table has to have as many rows as the first argument says.
const countsRows = `mkdir -m 0700 /tmp/data && tar -x -C /tmp/data || exit 1
rm -f /tmp/data/standby.signal
echo 'local all all trust' >/tmp/hba
programs=$(echo /usr/lib/postgresql/*/bin)
"$programs/postgres" -D /tmp/data -c listen_addresses= -c unix_socket_directories=/tmp -c hba_file=/tmp/hba -c archive_mode=off >/tmp/log 2>&1 &
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
	s := newSpace(t, "backup")
	i := s.redis("cache", withReplicas(2), safe())
	i.ready()
	i.must("SET", "known", "known")
	image := i.pod().Spec.Containers[0].Image
	s.shelf("store", image)
	t.Run("of a Redis that is written to", func(t *testing.T) { i.in(t).checkBackup() })
	t.Run("that nobody can make", func(t *testing.T) { i.in(t).checkBadBackups() })
	t.Run("whose mover is killed", func(t *testing.T) { i.in(t).checkMoverKilled() })
	t.Run("that is cancelled", func(t *testing.T) { i.in(t).checkBackupCancelled() })
	t.Run("of a PostgreSQL", func(t *testing.T) { s.in(t).checkBaseBackup() })
	t.Run("while the operator is killed", func(t *testing.T) { i.in(t).checkBackupAndOperator() })
	// What is left goes with the namespace.
}

// in returns the same instance for a subtest.
func (i *instance) in(t *testing.T) *instance { return &instance{space: i.space.in(t), name: i.name} }

func (i *instance) checkBackup() {
	w := i.startWriter()
	keys := i.must("DBSIZE")
	i.create(backupOf("first", "store", i.reference()))
	b := i.whole("first")
	w.stop()
	w.judge("writes during a backup", settleIn)
	if b.Status.Source.Role != "replica" || b.Status.Facts["role"] != "slave" {
		i.Errorf("the data is from %+v, facts %v", b.Status.Source, b.Status.Facts)
	}
	i.judged("judge-first", b, i.pod(), redisComponent, countsKeys, keys, "known")
	i.noMovers()
	if files, found := i.onShelf(b.Status.Key); !found || !strings.Contains(files, "manifest.json") {
		i.Errorf("on the shelf there is %q", files)
	}
	i.delete(b)
	i.eventually(readyIn, "the Backup is gone, and what was kept", func() error {
		if err := gone(i.get(b.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		if files, found := i.onShelf(b.Status.Key); found {
			return fmt.Errorf("there is %s", files)
		}
		return nil
	})
}

// checkBadBackups: what cannot be is said at once, and touches nothing.
func (i *instance) checkBadBackups() {
	i.create(&platformv1.BackupRepository{ObjectMeta: named("cloud"), Spec: platformv1.BackupRepositorySpec{S3: &platformv1.S3Repository{
		Endpoint: "https://s3.example.com", Bucket: "backups", CredentialsSecretRef: platformv1.SecretReference{Name: "absent"}}}})
	for name, want := range map[string]string{"nowhere": "there is no BackupRepository", "cloud": `names Secret "absent", which is not there`} {
		i.create(backupOf("into-"+name, name, i.reference()))
		if op := i.finished("into-"+name, errorIn); op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, want) {
			i.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
		}
	}
	op := backupOf("by-magic", "store", i.reference())
	op.Spec.Parameters["method"] = "magic"
	i.create(op)
	if op := i.finished("by-magic", errorIn); op.Status.Phase != platformv1.OperationFailed || !strings.Contains(op.Status.Error, `it has: "rdb"`) {
		i.Errorf("the Operation is %s: %s", op.Status.Phase, op.Status.Error)
	}
	by := &platformv1.Backup{ObjectMeta: named("by-hand"), Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: i.application()},
		RepositoryRef: platformv1.RepositoryReference{Name: "store"}, Method: "rdb"}}
	by.Spec.Timeout.Duration = readyIn
	if err := i.tryCreate(by); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template Backup") {
		i.Errorf("a Backup by hand: %v", err)
	}
	i.noMovers()
}

// checkMoverKilled: a mover that is lost is a backup that failed, and the next one is none the worse.
func (i *instance) checkMoverKilled() {
	i.create(backupOf("lost", "store", i.reference()))
	b := &platformv1.Backup{ObjectMeta: named("lost-backup")}
	pod := i.moverOf(b)
	i.delete(pod, graceZero)
	if op := i.finished("lost", readyIn); op.Status.Phase != platformv1.OperationFailed {
		i.Errorf("the Operation is %s", op.Status.Phase)
	}
	b = i.failed("lost-backup")
	if files, found := i.onShelf(b.Status.Key); found {
		i.Errorf("what is left of it is %s", files)
	}
	i.create(backupOf("next", "store", i.reference()))
	i.whole("next")
}

// checkBackupCancelled: nothing runs on, and nothing is left.
func (i *instance) checkBackupCancelled() {
	i.create(backupOf("dropped", "store", i.reference()))
	b := &platformv1.Backup{ObjectMeta: named("dropped-backup")}
	i.moverOf(b)
	op := &platformv1.Operation{}
	i.mustGet("dropped", op)
	before := op.DeepCopy()
	op.Spec.Cancel = true
	if err := world.client.Patch(i.ctx, op, client.MergeFrom(before)); err != nil {
		i.Fatal(err)
	}
	i.eventually(readyIn, "the Operation has ended", func() error {
		if err := i.get("dropped", op); err != nil {
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
	b = i.failed("dropped-backup")
	if files, found := i.onShelf(b.Status.Key); found {
		i.Errorf("what is left of it is %s", files)
	}
	i.noMovers()
}

// checkBackupAndOperator: whoever goes on, one mover takes the data.
func (i *instance) checkBackupAndOperator() {
	i.create(backupOf("steady", "store", i.reference()))
	b := &platformv1.Backup{ObjectMeta: named("steady-backup")}
	i.moverOf(b)
	i.deleteOperator()
	if whole := i.whole("steady"); whole.UID != b.UID {
		i.Errorf("it is another Backup: %s, and was %s", whole.UID, b.UID)
	}
	i.noMovers()
}

// noMovers waits until no Job of a Backup that did not fail is there.
func (i *instance) noMovers() {
	i.Helper()
	i.eventually(readyIn, "no Jobs are there", func() error {
		var jobs batchv1.JobList
		if err := i.list(&jobs, nil); err != nil {
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

func (s *space) checkBaseBackup() {
	spec := postgresqlApplication(postgresqlVersion)
	a := s.apply("pg", spec)
	a.ready()
	pod := &a.pods()[0]
	s.runClient(postgresqlClient, pod.Spec.Containers[0].Image)
	p := &postgresql{application: a, client: postgresqlClient}
	p.sql("postgres", "CREATE TABLE kept AS SELECT n FROM generate_series(1, 100000) n")
	s.create(backupOf("base", "store", coreReference("Application", "pg")))
	b := s.whole("base")
	if b.Status.Facts["timeline"] == "" || b.Status.Facts["startLSN"] == "" || b.Status.Facts["stopLSN"] == "" {
		s.Errorf("the facts are %v", b.Status.Facts)
	}
	s.judged("judge-base", b, pod, postgresqlComponent, countsRows, "100000")
}
