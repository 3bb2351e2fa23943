// SPDX-License-Identifier: Apache-2.0

package database

import (
	"database/sql"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// primaryPod is the pod that the engine calls the primary. Two are an error.
func (m *mysqlInstance) primaryPod() *corev1.Pod {
	m.Helper()
	var found *corev1.Pod
	m.Eventually(framework.ReadyTimeout, "one pod is the primary", func() error {
		found = nil
		for _, pod := range m.application().Pods() {
			if pod.Labels[platformv1.RoleLabel] != "primary" {
				continue
			}
			if found != nil {
				m.Errorf("%s and %s are called the primary", found.Name, pod.Name)
			}
			found = &pod
		}
		if found == nil {
			return errNotYet
		}
		return nil
	})
	return found
}

// TestMySQLGroup has three members keep what they acknowledge through faults of the primary, changes of their number,
// and an outage of all.
func TestMySQLGroup(t *testing.T) {
	g := newMySQLGroup(t, "mysqlgroup")
	t.Logf("apply to Ready: %s", framework.FormatSeconds(g.waitReady()))
	db := g.bound()
	g.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	checkMySQLGroupStatus(g)
	checkMySQLGroupRefused(g)
	checkMySQLGroupSettings(g)
	checkMySQLGroupTables(g, db)
	for i, part := range []struct {
		name string
		run  func()
	}{
		{"pod of the primary deleted", func() { g.Delete(g.primaryPod(), framework.GraceZero) }},
		{"switched over", func() {
			g.Create(framework.NewOperation("switch", "Switchover", g.reference()))
			g.WaitForOperation("switch")
		}},
		{"restarted, the primary last", func() {
			g.Create(framework.NewRestartOperation("restart", g.reference()))
			g.WaitForOperation("restart")
		}},
		{"five members", func() { g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Members = 5 }) }},
		{"three members again", func() { g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Members = 3 }) }},
		{"all pods deleted at once", func() {
			for _, pod := range g.application().Pods() {
				g.Delete(&pod, framework.GraceZero)
			}
		}},
	} {
		w := g.startWriter(db, i*1000000)
		part.run()
		g.waitReady()
		g.primaryPod()
		w.finish(part.name, db)
	}
}

func checkMySQLGroupStatus(g *mysqlGroup) {
	g.Eventually(framework.SettleTimeout, "the status tells of the members", func() error {
		s := g.object().Status
		if s.Ready != "3/3" || s.Replicas != "2/2" || s.Primary != g.primaryPod().Name ||
			s.Durability != platformv1.DurabilitySynchronous || len(s.Members) != 3 {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
}

func checkMySQLGroupRefused(g *mysqlGroup) {
	for want, change := range map[string]func(*databasev1.MySQLClusterSpec){
		"members must be 3, 5, 7 or 9": func(spec *databasev1.MySQLClusterSpec) { spec.Members = 4 },
		"set spec.consistency in place": func(spec *databasev1.MySQLClusterSpec) {
			spec.Parameters["group_replication_consistency"] = "AFTER"
		},
		"log_at_trx_commit must be 1": func(spec *databasev1.MySQLClusterSpec) {
			spec.Parameters["innodb_flush_log_at_trx_commit"] = "2"
		},
		"version cannot change":       func(spec *databasev1.MySQLClusterSpec) { spec.Version = mysqlOther },
		"cannot change while it runs": func(spec *databasev1.MySQLClusterSpec) { spec.TLS = &platformv1.TLS{Enabled: true} },
	} {
		g.ExpectRefused(g.tryUpdate(change), want)
	}
}

// checkMySQLGroupSettings has all members take over what is set, while they run.
func checkMySQLGroupSettings(g *mysqlGroup) {
	before := g.application().ProcessStarts()
	g.update(func(spec *databasev1.MySQLClusterSpec) {
		spec.Consistency, spec.ExpelTimeout, spec.AutoRejoinTries = databasev1.MySQLAfter,
			&metav1.Duration{Duration: 3 * time.Second}, new(int32(1))
	})
	for _, pod := range g.application().Pods() {
		g.waitForPod(&pod, "AFTER 3 10 1", "SELECT CONCAT_WS(' ', @@group_replication_consistency, "+
			"@@group_replication_member_expel_timeout, @@group_replication_unreachable_majority_timeout, "+
			"@@group_replication_autorejoin_tries)")
	}
	g.update(func(spec *databasev1.MySQLClusterSpec) {
		spec.Consistency, spec.ExpelTimeout, spec.AutoRejoinTries = "", nil, nil
	})
	for _, pod := range g.application().Pods() {
		g.waitForPod(&pod, "BEFORE_ON_PRIMARY_FAILOVER 0 3", "SELECT CONCAT_WS(' ', @@group_replication_consistency, "+
			"@@group_replication_member_expel_timeout, @@group_replication_autorejoin_tries)")
	}
	if now := g.application().ProcessStarts(); !maps.Equal(before, now) {
		g.Errorf("for a setting of the group processes were started: since %v, and since %v", before, now)
	}
}

// checkMySQLGroupTables has a condition name a table that the group takes no writes to.
func checkMySQLGroupTables(g *mysqlGroup, db *sql.DB) {
	g.exec(db, "CREATE TABLE keyless (n INT)")
	g.expectRefused(db, "does not comply", "INSERT INTO keyless VALUES (1)")
	g.waitForTables(metav1.ConditionFalse, "app.keyless")
	g.exec(db, "DROP TABLE keyless")
	g.waitForTables(metav1.ConditionTrue, "")
}
