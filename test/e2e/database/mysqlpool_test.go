// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"
	"time"

	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// mysqlSessions are those of the pool of an application.
	mysqlSessions = 50
	// mysqlSessionPause is that of each of them between two rows.
	mysqlSessionPause = 200 * time.Millisecond
)

// TestMySQLPool has a pool of 50 sessions write while the primary is another one, by a fault and by an Operation: each
// session goes on, and no write is lost that was acknowledged.
func TestMySQLPool(t *testing.T) {
	g := newMySQLGroup(t, "mysqlpool")
	g.waitReady()
	db := g.pool(mysqlSessions)
	g.exec(db, "CREATE TABLE numbers (n INT PRIMARY KEY)")
	for i, part := range []struct {
		name string
		run  func()
	}{
		{"server of the primary killed", func() {
			if _, err := framework.Run(g.Ctx, g.Namespace.Name, g.primaryPod().Name, "mysql", "", "sh", "-c",
				framework.SignalScript+"exit 0", "signal", "KILL", "mysqld"); err != nil {
				t.Fatal(err)
			}
		}},
		{"pod of the primary deleted", func() { g.Delete(g.primaryPod(), framework.GraceZero) }},
		{"switched over", func() {
			g.Create(framework.NewOperation("switch", "Switchover", g.reference()))
			g.WaitForOperation("switch")
		}},
	} {
		w := g.startWriters(db, i*10000000, mysqlSessions, mysqlSessionPause)
		w.waitForAll(part.name)
		g.waitForSessions(db)
		before := g.primaryPod().Name
		part.run()
		w.waitForAll(part.name)
		g.waitReady()
		if now := g.primaryPod().Name; now == before {
			t.Errorf("%s: %s is the primary still", part.name, now)
		}
		w.waitForAll(part.name)
		w.finish(part.name, db)
	}
}
