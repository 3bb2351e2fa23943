// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestMySQLClusterPointInTime has a group archive into a bucket while its primary is switched over, and then lost with
// logs that it did not come to archive: others begin at times between and after, and have exactly what was committed
// until then.
func TestMySQLClusterPointInTime(t *testing.T) {
	s := framework.NewNamespace(t, "mysqlgrouptime")
	s.EnsureStorageOperator()
	CreateObjectStorageRepository(s, "store")
	g := makeMySQLGroup(s, "db")
	g.waitReady()
	a := &mysqlArchiver{mysqlInstance: g.mysqlInstance}
	a.inRepository()
	g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Archive = a.archive })
	base := a.backUp()
	first := a.writes(2)
	was := g.primaryPod().Name
	g.Create(framework.NewOperation("switch", "Switchover", g.reference()))
	g.WaitForOperation("switch")
	g.waitForAnother(was)
	second := a.writes(3)
	third := a.writes(4)
	was = g.primaryPod().Name
	g.deletePod(was, framework.GraceZero)
	g.waitForAnother(was)
	a.writes(5)
	a.archives()
	g.waitReady()
	a.restoredAt("first", a.from(base, first), "1 2")
	a.restoredAt("second", a.from(base, second), "1 2 3")

	spec := g.object().Spec
	spec.RestoreFrom = a.from(base, third)
	// The members of the other group need the room.
	g.Delete(g.object())
	g.Create(&databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta("third"), Spec: spec})
	restored := &mysqlGroup{a.beside("third")}
	restored.waitReady()
	for _, pod := range restored.members() {
		restored.waitForPod(&pod, "1 2 3 4", "SELECT GROUP_CONCAT(n ORDER BY n SEPARATOR ' ') FROM app.kept")
	}
	// Its log leads on from no Backup of before.
	(&mysqlArchiver{mysqlInstance: restored.mysqlInstance}).archives()
	restored.refusesInPlace(base, "keeps its log in an archive")
}
