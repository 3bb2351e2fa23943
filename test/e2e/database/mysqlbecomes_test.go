// SPDX-License-Identifier: Apache-2.0

package database

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLBecomesCluster has a MySQL become a MySQLCluster while clients write to it: they lose no write that was
// acknowledged, and neither address, password, user nor data is another one afterwards.
func TestMySQLBecomesCluster(t *testing.T) {
	s := framework.NewNamespace(t, "mysqlbecomes")
	s.CreateSecret("users", "clerk", appPassword)
	spec := mysqlSpec(mysqlVersion)
	spec.Users = []databasev1.MySQLUser{{
		Name: "clerk", PasswordFrom: platformv1.SecretKeyReference{Name: "users", Key: "clerk"},
		Grants: []databasev1.MySQLGrant{{Database: "orders", Privileges: []databasev1.MySQLPrivilege{"SELECT"}}},
	}}
	spec.Databases = []databasev1.MySQLDatabase{{Name: "orders"}}
	s.Create(&databasev1.MySQL{ObjectMeta: framework.ObjectMeta("db"), Spec: spec})
	m := &mysqlInstance{Namespace: s, name: "db", ways: s.NewPortForwards()}
	m.waitReady()
	db, binding, uid := m.bound(), m.binding(), m.application().Object().UID
	m.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)", "CREATE TABLE keyless (n INT)")

	g := &mysqlGroup{&mysqlInstance{
		Namespace: s, name: "db", ways: m.ways, kind: "MySQLCluster", adopted: m.application().Name,
	}}
	w := m.startWriter(db, 1)
	m.waitForTables(metav1.ConditionFalse, "app.keyless")
	s.Create(&databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta("db"), Spec: databasev1.MySQLClusterSpec{
		InstanceSpec: spec.InstanceSpec, MySQLServers: spec.MySQLServers, AdoptMySQL: "db"}})
	checkMySQLWaitsForKeys(g, db)
	t.Logf("a MySQL became a MySQLCluster in %s", framework.FormatSeconds(g.waitReady()))
	g.primaryPod()
	w.finish("became a group", db)

	s.Eventually(framework.SettleTimeout, "the MySQL is gone", func() error {
		if err := s.Get("db", &databasev1.MySQL{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	now := g.binding()
	for _, key := range []string{"host", "port", "username", "password", "database", "uri"} {
		if now[key] != binding[key] {
			t.Errorf("%s was %q and is %q", key, binding[key], now[key])
		}
	}
	if got := g.application().Object().UID; got != uid {
		t.Errorf("the Application is another one: %s, and %s before", got, uid)
	}
	checkMySQLGroupStatus(g)
	checkMySQLMembersAreAlike(g)
	clerk := g.client("clerk", appPassword, "orders")
	g.waitForAnswer(clerk, "1", "SELECT 1")
	checkMySQLGroupOperates(g, db)
}

// checkMySQLWaitsForKeys has a table without a key be named before anything is taken over, and takes it away.
func checkMySQLWaitsForKeys(g *mysqlGroup, db *sql.DB) {
	g.Helper()
	g.Eventually(framework.ReadyTimeout, "a table without a key is named", func() error {
		for _, c := range g.object().Status.Conditions {
			if c.Type == platformv1.StalledCondition && strings.Contains(c.Message, "app.keyless") {
				return nil
			}
		}
		return errNotYet
	})
	g.exec(db, "DROP TABLE keyless")
}

// checkMySQLMembersAreAlike has all members have what the MySQL had.
func checkMySQLMembersAreAlike(g *mysqlGroup) {
	g.Helper()
	want, pods := "", g.application().Pods()
	for i, pod := range pods {
		statement := "SELECT COUNT(*) FROM app.numbers"
		if i == 0 {
			g.Eventually(framework.SettleTimeout, pod.Name+" is asked", func() (err error) {
				want, err = g.askPod(pod.Name, statement)
				return err
			})
		}
		g.waitForPod(&pod, want, statement)
	}
	if len(pods) != 3 {
		g.Errorf("there are %d members", len(pods))
	}
}

// checkMySQLGroupOperates has an Operation find the instance that was taken over, and a change of the spec reach it.
func checkMySQLGroupOperates(g *mysqlGroup, db *sql.DB) {
	g.Helper()
	w := g.startWriter(db, 1000000)
	g.Create(framework.NewOperation("switch", "Switchover", g.reference()))
	g.WaitForOperation("switch")
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Consistency = databasev1.MySQLBefore })
	g.primaryPod()
	w.finish("switched over", db)
}
