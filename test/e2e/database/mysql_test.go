// SPDX-License-Identifier: Apache-2.0

package database

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlUsers declares a database and a user with rights to it.
func mysqlUsers(spec *databasev1.MySQLSpec) {
	spec.Databases = []databasev1.MySQLDatabase{{Name: "orders", Charset: "utf8mb4"}}
	spec.Users = []databasev1.MySQLUser{
		{Name: "clerk", PasswordFrom: platformv1.SecretKeyReference{Name: "users", Key: "clerk"}, MaxConnections: 5,
			Grants: []databasev1.MySQLGrant{{Database: "orders",
				Privileges: []databasev1.MySQLPrivilege{"SELECT", "INSERT", "CREATE"}}}}}
}

// TestMySQL takes a MySQL through its life with a real client, which is told no more than the binding says.
func TestMySQL(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "mysql")
	s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta("users"),
		StringData: map[string]string{"clerk": appPassword}})
	obj := &databasev1.MySQL{ObjectMeta: framework.ObjectMeta("db"), Spec: mysqlSpec(mysqlVersion)}
	mysqlUsers(&obj.Spec)
	s.Create(obj)
	m := &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards()}
	t.Logf("apply to Ready: %s", framework.FormatSeconds(m.waitReady()))
	for _, part := range []struct {
		name string
		run  func(*mysqlInstance)
	}{
		{"clients go by the binding", checkMySQLBinding},
		{"users and databases are as declared", checkMySQLInside},
		{"parameters change while it runs, or by a restart", checkMySQLParameters},
		{"passwords are rotated, and the former ones stay valid until they are discarded", checkMySQLRotation},
		{"a process that is restarted keeps its data", checkMySQLRestart},
		{"nothing is told of a process that hangs", checkMySQLHangs},
		{"a dump is restored into both versions", checkMySQLBackup},
		{"it speaks TLS", checkMySQLTLS},
		{"bad changes are refused", checkMySQLRefused},
		{"it is deleted", checkMySQLDeleted},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(m.in(t)) }) {
			return
		}
	}
}

// checkMySQLHangs stops the process: what it said of itself is not known to be so until it responds again.
func checkMySQLHangs(m *mysqlInstance) {
	group, pod := &mysqlGroup{m}, m.application().Pods()[0].Name
	m.waitForCondition("Writable", metav1.ConditionTrue, "ReadWrite")
	group.signal(pod, "STOP")
	m.waitForCondition("Writable", metav1.ConditionUnknown, "NotResponding")
	group.signal(pod, "CONT")
	m.waitForCondition("Writable", metav1.ConditionTrue, "ReadWrite")
	m.waitReady()
}

func checkMySQLBinding(m *mysqlInstance) {
	obj, b := m.object(), m.BindingData(m.object().Status.BindingName)
	for what, pair := range map[string][2]string{
		"ready":        {obj.Status.Ready, "1/1"},
		"endpoint":     {obj.Status.Endpoint, b["host"] + ":" + b["port"]},
		"binding type": {b["type"], "mysql"},
		"username":     {b["username"], "app"},
		"database":     {b["database"], "app"},
	} {
		if pair[0] != pair[1] {
			m.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if !strings.HasPrefix(obj.Status.Version, mysqlVersion+".") {
		m.Errorf("it runs version %q", obj.Status.Version)
	}
	bound := m.bound()
	m.exec(bound, "CREATE TABLE greetings (said VARCHAR(100))", "INSERT INTO greetings VALUES ('hello')")
	m.waitForAnswer(bound, "hello", "SELECT said FROM greetings")
	m.expectRefused(bound, "denied", "SELECT User FROM mysql.user LIMIT 1")
	m.expectRefused(m.client("root", "guess", ""), "Access denied", "SELECT 1")
	m.waitForAnswer(m.client("root", m.credential("root")["password"], ""), "1",
		"SELECT COUNT(*) FROM mysql.user WHERE User = 'root'")
}

func checkMySQLInside(m *mysqlInstance) {
	clerk := m.client("clerk", appPassword, "orders")
	m.exec(clerk, "CREATE TABLE kept (n INT PRIMARY KEY, s VARCHAR(40))",
		"INSERT INTO kept WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 1000) SELECT n, MD5(n) "+
			"FROM r")
	m.waitForAnswer(clerk, "1000", "SELECT COUNT(*) FROM kept")
	if _, err := clerk.ExecContext(m.Ctx, "DELETE FROM kept"); err == nil || !strings.Contains(err.Error(), "denied") {
		m.Errorf("what is not granted: %v", err)
	}
	before := m.application().ProcessStarts()
	m.update(func(spec *databasev1.MySQLSpec) {
		spec.Users[0].Grants[0].Privileges = append(spec.Users[0].Grants[0].Privileges, "DELETE")
	})
	// A session has the privileges that it had when it chose its database.
	m.exec(m.client("clerk", appPassword, "orders"), "DELETE FROM kept WHERE n = 1000")
	if after := m.application().ProcessStarts(); !maps.Equal(before, after) {
		m.Errorf("the process ran since %v, and since %v", before, after)
	}
}

func checkMySQLParameters(m *mysqlInstance) {
	bound, before := m.bound(), m.application().ProcessStarts()
	m.update(func(spec *databasev1.MySQLSpec) {
		spec.Parameters["max_connections"], spec.Parameters["long_query_time"] = "55", "0.5"
	})
	m.waitForAnswer(bound, "55 0.500000", "SELECT CONCAT(@@global.max_connections, ' ', @@global.long_query_time)")
	m.update(func(spec *databasev1.MySQLSpec) { delete(spec.Parameters, "long_query_time") })
	m.waitForAnswer(bound, "10.000000", "SELECT CONCAT(@@global.long_query_time)")
	m.Create(framework.NewOperation("reload", "Reload", m.reference()))
	m.WaitForOperation("reload")
	if now := m.application().ProcessStarts(); !maps.Equal(before, now) {
		m.Errorf("for a parameter that SET GLOBAL takes, or a Reload, the process was started: since %v, and since %v",
			before, now)
	}
	m.update(func(spec *databasev1.MySQLSpec) { spec.Parameters["innodb_autoinc_lock_mode"] = "1" })
	m.waitForAnswer(bound, "1", "SELECT @@innodb_autoinc_lock_mode")
	if now := m.application().ProcessStarts(); maps.Equal(before, now) {
		m.Error("for a parameter of the start the process was not started")
	}
}

func checkMySQLRotation(m *mysqlInstance) {
	former, before := m.credential("app")["password"], m.application().ProcessStarts()
	m.Create(framework.NewOperation("rotate", "RotateCredentials", m.reference()))
	m.WaitForOperation("rotate")
	m.waitReady()
	fresh := m.credential("app")["password"]
	if fresh == former {
		m.Fatal("the password is the same")
	}
	for _, password := range []string{former, fresh} {
		m.waitForAnswer(m.client("app", password, "app"), "1", "SELECT 1")
	}
	m.Create(framework.NewOperation("discard", "DiscardOldPasswords", m.reference()))
	m.WaitForOperation("discard")
	m.expectRefused(m.client("app", former, "app"), "Access denied", "SELECT 1")
	m.waitForAnswer(m.client("app", fresh, "app"), "1", "SELECT 1")
	if now := m.application().ProcessStarts(); !maps.Equal(before, now) {
		m.Errorf("for a password the process was started: since %v, and since %v", before, now)
	}
}

func checkMySQLRestart(m *mysqlInstance) {
	before := m.application().UIDs()
	m.Create(framework.NewRestartOperation("restart", m.reference()))
	m.WaitForOperation("restart")
	m.waitReady()
	m.waitForAnswer(m.bound(), "hello", "SELECT said FROM greetings")
	if now := m.application().UIDs(); !maps.Equal(before, now) {
		m.Errorf("pods are %v, and were %v", now, before)
	}
}

func checkMySQLBackup(m *mysqlInstance) {
	m.CreateRepository("store", m.application().Pods()[0].Spec.Containers[0].Image)
	sum, err := m.asks(m.client("clerk", appPassword, "orders"), mysqlSum)
	if err != nil {
		m.Fatal(err)
	}
	m.Create(framework.NewBackupOperation("dump", "store", m.reference()))
	b := m.WaitForStoredBackup("dump")
	if facts := b.Status.Facts; b.Spec.Method != "dump" || facts["databases"] != "2" ||
		!strings.HasPrefix(facts["serverVersion"], mysqlVersion+".") {
		m.Errorf("the Backup is by %s, and says %v", b.Spec.Method, facts)
	}
	for name, version := range map[string]string{"copy": mysqlVersion, "later": mysqlLater} {
		spec := mysqlSpec(version)
		mysqlUsers(&spec)
		spec.RestoreFrom = &platformv1.RestoreFrom{Backup: b.Name}
		m.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta(name), Spec: spec})
		restored := &mysqlInstance{Namespace: m.Namespace, name: name, ways: m.ways}
		restored.waitReady()
		restored.waitForAnswer(restored.client("clerk", appPassword, "orders"), sum, mysqlSum)
		restored.waitForAnswer(restored.bound(), "hello", "SELECT said FROM greetings")
		m.Delete(restored.object())
	}
	drill := framework.NewDrillOperation("drill", m.reference())
	drill.Spec.Parameters = platformv1.Parameters{"backup": platformv1.ParameterValue(b.Name)}
	m.Create(drill)
	m.WaitForOperation("drill")
	m.ExpectVerified(b.Name, "drill", platformv1.VerificationPassed, "found the data good")
}

func checkMySQLTLS(m *mysqlInstance) {
	plain := m.bound()
	m.update(func(spec *databasev1.MySQLSpec) { spec.TLS = &platformv1.TLS{Enabled: true} })
	m.expectRefused(plain, "require_secure_transport", "SELECT 1")
	m.waitForAnswer(m.bound(), "hello", "SELECT said FROM greetings")
}

func checkMySQLRefused(m *mysqlInstance) {
	for want, change := range map[string]func(*databasev1.MySQLSpec){
		"version cannot change":       func(spec *databasev1.MySQLSpec) { spec.Version = mysqlOther },
		"storage.size cannot shrink":  func(spec *databasev1.MySQLSpec) { spec.Storage.Size = resource.MustParse("512Mi") },
		"are the instance's own":      func(spec *databasev1.MySQLSpec) { spec.Users[0].Name = "root" },
		"nothing of MySQL's own data": func(spec *databasev1.MySQLSpec) { spec.Users[0].Grants[0].Database = "mysql" },
	} {
		m.ExpectRefused(m.tryUpdate(change), want)
	}
	m.ExpectOperationRefused(framework.NewOperation("upgrade", "UpgradePaaS", m.reference(), "version", mysqlOther),
		"restore a Backup of the method dump")
}

func checkMySQLDeleted(m *mysqlInstance) {
	m.Delete(m.object())
	m.Eventually(framework.ReadyTimeout, "pods and volumes are gone", func() error {
		err := m.Get("db", &databasev1.MySQL{})
		if apierrors.IsNotFound(err) && len(m.application().Pods()) == 0 && len(m.application().Claims()) == 0 {
			return nil
		}
		return errNotYet
	})
}
