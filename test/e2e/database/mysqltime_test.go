// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// TestMySQLPointInTime has a MySQL archive its binary log on the volume that its backups are on, and others begin with
// it at points in time, through a restart of the process.
func TestMySQLPointInTime(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "mysqltime")
	spec := mysqlSpec(mysqlVersion)
	spec.Monitoring = &platformv1.Monitoring{Enabled: true}
	s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("db"), Spec: spec})
	m := &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards()}
	m.waitReady()
	// Data and archive have to be where one node reaches both.
	pod := m.application().Pods()[0]
	s.CreateRepositoryOnNode("store", pod.Spec.Containers[0].Image,
		map[string]string{corev1.LabelHostname: pod.Spec.NodeName})
	m.update(func(spec *databasev1.MySQLSpec) { spec.Archive = mysqlArchive() })
	m.exec(m.bound(), "CREATE TABLE kept (n INT PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	m.archives()
	primary := &m.application().Pods()[0]
	m.application().WaitForSample(primary, mysqlMetricsPort, 0, "mysql_archive_waiting_files")
	m.application().WaitForSample(primary, mysqlMetricsPort, 0, "mysql_archive_failing")

	s.Create(framework.NewBackupOperation("base", "store", m.reference()))
	base := s.WaitForStoredBackup("base")
	if base.Status.Facts["archive"] == "" {
		t.Errorf("the Backup leads to no archive: %v", base.Status.Facts)
	}
	first := m.writes(2)
	m.Create(framework.NewRestartOperation("restart", m.reference()))
	m.WaitForOperation("restart")
	m.waitReady()
	second := m.writes(3)
	m.writes(4)
	m.restoredAt("first", base.Name, first, "1 2")
	m.restoredAt("second", base.Name, second, "1 2 3")
	m.waitForAnswer(m.bound(), "1 2 3 4", mysqlKept)

	late := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	m.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("late"), Spec: mysqlRestored(base.Name, late)})
	m.saysOf("late", platformv1.ReadyCondition, metav1.ConditionFalse, "TargetOutOfRange")
}

func mysqlArchive() *databasev1.LogArchive {
	return &databasev1.LogArchive{RepositoryRef: &platformv1.RepositoryReference{Name: "store"},
		Timeout: &metav1.Duration{Duration: 5 * time.Second}}
}

// mysqlRestored asks for a server that begins at a time.
func mysqlRestored(backup, at string) databasev1.MySQLSpec {
	spec := mysqlSpec(mysqlVersion)
	spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup,
		Target: &platformv1.RestoreTarget{Time: at, RepositoryRef: &platformv1.RepositoryReference{Name: "store"}}}
	return spec
}

// writes adds a row, and returns a time after it. Whatever is written later is archived.
func (m *mysqlInstance) writes(n int) (after string) {
	m.Helper()
	bound := m.bound()
	m.exec(bound, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
	after, err := m.asks(bound, mysqlTime)
	if err != nil {
		m.Fatal(err)
	}
	m.archives()
	return after
}

// archives waits until all that was written is in a log that is archived: the server has begun another one for it
// twice, and says that all closed ones are archived.
func (m *mysqlInstance) archives() {
	m.Helper()
	root := m.client("root", m.credential("root")["password"], "app")
	const open = "SELECT SUBSTRING_INDEX(FILE_NAME, '/', -1) FROM performance_schema.file_instances WHERE FILE_NAME " +
		"LIKE '%/binlog.0%' AND OPEN_COUNT > 0 ORDER BY 1 DESC LIMIT 1"
	was, err := m.asks(root, open)
	if err != nil {
		m.Fatal(err)
	}
	for n := range 2 {
		m.exec(root, "CREATE TABLE IF NOT EXISTS more (n INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO more VALUES ()")
		m.Eventually(framework.ReadyTimeout, fmt.Sprintf("a log is closed (%d)", n+1), func() error {
			now, err := m.asks(root, open)
			if err == nil && now == was {
				err = fmt.Errorf("it is %s: %s", now, framework.Describe(m.object().Status.Conditions))
			}
			if err == nil {
				was = now
			}
			return err
		})
	}
	m.saysOf(m.name, "Archiving", metav1.ConditionTrue, "Archived")
}

// saysOf waits until a condition of a MySQL is what it is to be.
func (m *mysqlInstance) saysOf(name, condition string, status metav1.ConditionStatus, reason string) {
	m.Helper()
	m.Eventually(framework.ReadyTimeout, fmt.Sprintf("%s of %s is %s with %s", condition, name, status, reason),
		func() error {
			obj := &databasev1.MySQL{}
			if err := m.Get(name, obj); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(obj.Status.Conditions, condition); c == nil || c.Status != status ||
				c.Reason != reason {
				return fmt.Errorf("it says %s", framework.Describe(obj.Status.Conditions))
			}
			return nil
		})
}

// restoredAt has another instance begin at a time, and archive beside.
func (m *mysqlInstance) restoredAt(name, backup, at, want string) {
	m.Helper()
	spec := mysqlRestored(backup, at)
	spec.Archive = mysqlArchive()
	m.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta(name), Spec: spec})
	restored := &mysqlInstance{Namespace: m.Namespace, name: name, ways: m.ways}
	restored.waitReady()
	restored.waitForAnswer(restored.bound(), want, mysqlKept)
	restored.archives()
	m.Delete(restored.object())
}
