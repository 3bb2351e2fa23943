// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"
	"time"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlSessions are those of the pool of an application.
	mysqlSessions = 50
	// mysqlSessionPause is that of each of them between two rows.
	mysqlSessionPause = 200 * time.Millisecond
)

// TestMySQLPool has a pool of 50 sessions write while the primary is another one, by a fault and by an Operation, and
// while members come and go: each session goes on, and no write is lost that was acknowledged.
func TestMySQLPool(t *testing.T) {
	g := newMySQLGroup(t, "mysqlpool")
	g.waitReady()
	db := g.pool(mysqlSessions)
	g.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	for i, part := range []struct {
		name string
		run  func()
		// stays says that the primary may be the same afterwards.
		stays bool
	}{
		{name: "server of the primary killed", run: func() { g.signal(g.primaryPod().Name, "KILL") }},
		{name: "pod of the primary deleted", run: func() { g.Delete(g.primaryPod(), framework.GraceZero) }},
		{name: "switched over", run: func() {
			g.Create(framework.NewOperation("switch", "Switchover", g.reference()))
			g.WaitForOperation("switch")
		}},
		{name: "restarted, the primary last", run: func() {
			g.Create(framework.NewRestartOperation("restart", g.reference()))
			g.WaitForOperation("restart")
		}},
		{name: "five members", stays: true,
			run: func() { g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Members = 5 }) }},
		{name: "three members again", stays: true,
			run: func() { g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Members = 3 }) }},
	} {
		w := g.startWriters(db, i*10000000, mysqlSessions, mysqlSessionPause)
		w.waitForAll(part.name)
		g.waitForSessions(db)
		before := g.primaryPod().Name
		part.run()
		w.waitForAll(part.name)
		g.waitReady()
		if now := g.primaryPod().Name; now == before && !part.stays {
			t.Errorf("%s: %s is the primary still", part.name, now)
		}
		w.waitForAll(part.name)
		w.finish(part.name, db)
	}
}
