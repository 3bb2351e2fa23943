// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlMetricsPort is where the plugin mysql serves metrics.
	mysqlMetricsPort = 9104
	// mysqlTime is the time of a server as restores take it.
	mysqlTime = "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')"
	// mysqlKept says which rows there are.
	mysqlKept = "SELECT GROUP_CONCAT(n ORDER BY n SEPARATOR ' ') FROM kept"
)

// mysqlArchiver is a MySQL that archives its binary log, or a MySQLCluster.
type mysqlArchiver struct {
	*mysqlInstance
	// archive is where, and target says the same to those that begin at a time.
	archive *databasev1.LogArchive
	target  platformv1.RestoreTarget
}

// TestMySQLPointInTime has a MySQL archive its binary log on the volume that its backups are on, and others begin with
// it at points in time, through a restart of the process.
func TestMySQLPointInTime(t *testing.T) {
	t.Parallel()
	a := newMySQLArchiver(framework.NewNamespace(t, "mysqltime"))
	// Data and archive have to be where one node reaches both.
	pod := a.application().Pods()[0]
	a.CreateRepositoryOnNode("store", pod.Spec.Containers[0].Image,
		map[string]string{corev1.LabelHostname: pod.Spec.NodeName})
	a.inRepository()
	checkMySQLPointInTime(a)
}

// TestMySQLPointInTimeInBucket does the same with an archive in a bucket, which the object names itself.
func TestMySQLPointInTimeInBucket(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "mysqlbucket")
	s.EnsureStorageOperator()
	o := CreateObjectStorageRepository(s, "store")
	a := newMySQLArchiver(s)
	endpoint, prefix := o.Binding()["endpoint"], "logs/of-db"
	key := platformv1.SecretKeyReference{Name: keeper, Key: "secretKey"}
	authority := platformv1.SecretKeyReference{Name: o.Object().Status.BindingName, Key: "ca.crt"}
	a.archive = &databasev1.LogArchive{Endpoint: endpoint, Bucket: framework.BackupBucket, Prefix: prefix,
		Addressing: databasev1.ArchiveAddressingPath, AccessKey: keeper, SecretKeyFrom: key, CAFrom: &authority,
		Timeout: &metav1.Duration{Duration: 5 * time.Second}}
	a.target = platformv1.RestoreTarget{
		Parameters: platformv1.Parameters{"archive.endpoint": platformv1.ParameterValue(endpoint),
			"archive.bucket": framework.BackupBucket, "archive.prefix": platformv1.ParameterValue(prefix),
			"archive.addressing": "path", "archive.accessKey": keeper},
		Credentials: []platformv1.Credential{{Name: "archive", PasswordFrom: key},
			{Name: "archive-ca", PasswordFrom: authority}},
	}
	checkMySQLPointInTime(a)
	a.refusesInPlace("base-backup", "keeps its log in an archive")
}

// newMySQLArchiver makes a MySQL that archives nothing yet.
func newMySQLArchiver(s *framework.Namespace) *mysqlArchiver {
	s.Helper()
	spec := mysqlSpec(mysqlVersion)
	spec.Monitoring = &platformv1.Monitoring{Enabled: true}
	s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("db"), Spec: spec})
	a := &mysqlArchiver{mysqlInstance: &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards()}}
	a.waitReady()
	return a
}

// inRepository has the archive be in the repository "store".
func (a *mysqlArchiver) inRepository() {
	a.archive = &databasev1.LogArchive{RepositoryRef: &platformv1.RepositoryReference{Name: "store"},
		Timeout: &metav1.Duration{Duration: 5 * time.Second}}
	a.target = platformv1.RestoreTarget{RepositoryRef: a.archive.RepositoryRef}
}

// checkMySQLPointInTime has others begin at points in time, through a restart of the process.
func checkMySQLPointInTime(a *mysqlArchiver) {
	a.update(func(spec *databasev1.MySQLSpec) { spec.Archive = a.archive })
	base := a.backUp()
	primary := a.primaryPod()
	a.application().WaitForSample(primary, mysqlMetricsPort, 0, "mysql_archive_waiting_files")
	a.application().WaitForSample(primary, mysqlMetricsPort, 0, "mysql_archive_failing")
	first := a.writes(2)
	a.archives()
	a.Create(framework.NewRestartOperation("restart", a.reference()))
	a.WaitForOperation("restart")
	a.waitReady()
	second := a.writes(3)
	a.archives()
	a.writes(4)
	a.archives()
	a.restoredAt("first", a.from(base, first), "1 2")
	a.restoredAt("second", a.from(base, second), "1 2 3")
	a.waitForAnswer(a.bound(), "1 2 3 4", mysqlKept)

	spec := mysqlSpec(mysqlVersion)
	spec.RestoreFrom = a.from(base, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	a.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("late"), Spec: spec})
	a.beside("late").waitForCondition(platformv1.ReadyCondition, metav1.ConditionFalse, "TargetOutOfRange")
}

// backUp makes the table of rows with the first of them, and a Backup that the archive goes on from.
func (a *mysqlArchiver) backUp() (name string) {
	a.Helper()
	a.exec(a.bound(), "CREATE TABLE kept (n INT PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	a.archives()
	a.Create(framework.NewBackupOperation("base", "store", a.reference()))
	base := a.WaitForStoredBackup("base")
	if base.Status.Facts["archive"] == "" {
		a.Errorf("the Backup leads to no archive: %v", base.Status.Facts)
	}
	return base.Name
}

// from says with what an instance begins at a time.
func (a *mysqlArchiver) from(backup, at string) *platformv1.RestoreFrom {
	target := a.target
	target.Time = at
	return &platformv1.RestoreFrom{Backup: backup, Target: &target}
}

// writes adds a row, by a server that may have become the primary a moment ago, and returns a time after it.
func (a *mysqlArchiver) writes(n int) (after string) {
	a.Helper()
	bound, statement := a.bound(), fmt.Sprintf("REPLACE INTO kept VALUES (%d)", n)
	a.Eventually(framework.SettleTimeout, statement, func() error {
		_, err := bound.ExecContext(a.Ctx, statement)
		return err
	})
	after, err := a.asks(bound, mysqlTime)
	if err != nil {
		a.Fatal(err)
	}
	return after
}

// archives waits until all that was written is in a log that is archived: the server has begun another one for it
// twice, and says that all closed ones are archived.
func (a *mysqlArchiver) archives() {
	a.Helper()
	root := a.client("root", a.credential("root")["password"], "app")
	const open = "SELECT SUBSTRING_INDEX(FILE_NAME, '/', -1) FROM performance_schema.file_instances WHERE FILE_NAME " +
		"LIKE '%/binlog.0%' AND OPEN_COUNT > 0 ORDER BY 1 DESC LIMIT 1"
	was, err := a.asks(root, open)
	if err != nil {
		a.Fatal(err)
	}
	for n := range 2 {
		a.exec(root, "CREATE TABLE IF NOT EXISTS more (n INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO more VALUES ()")
		a.Eventually(framework.ReadyTimeout, fmt.Sprintf("a log is closed (%d)", n+1), func() error {
			now, err := a.asks(root, open)
			if err == nil && now == was {
				err = fmt.Errorf("it is %s", now)
			}
			if err == nil {
				was = now
			}
			return err
		})
	}
	a.waitForCondition("Archiving", metav1.ConditionTrue, "Archived")
}

// restoredAt has a MySQL begin at a time, and archive beside.
func (a *mysqlArchiver) restoredAt(name string, from *platformv1.RestoreFrom, want string) {
	a.Helper()
	spec := mysqlSpec(mysqlVersion)
	spec.RestoreFrom, spec.Archive = from, a.archive
	a.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta(name), Spec: spec})
	restored := &mysqlArchiver{mysqlInstance: a.beside(name)}
	restored.kind = ""
	restored.waitReady()
	restored.waitForAnswer(restored.bound(), want, mysqlKept)
	restored.archives()
	a.Delete(restored.object())
}

// refusesInPlace: a restore in the place of the data fails with a text, and the instance goes on with the volumes that
// it has.
func (m *mysqlInstance) refusesInPlace(backup, text string) {
	m.Helper()
	before := volumes(m.Namespace, m.application().Name)
	m.Create(framework.NewRestoreOperation("in-place", backup, m.reference()))
	if op := m.WaitForOperationEnd("in-place", framework.ReadyTimeout); op.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(op.Status.Error, text) {
		m.Errorf("a restore in place is %s: %s", op.Status.Phase, op.Status.Error)
	}
	if after := volumes(m.Namespace, m.application().Name); !slices.Equal(after, before) {
		m.Errorf("it has the volumes %v, and had %v", after, before)
	}
}
