// SPDX-License-Identifier: Apache-2.0

package database

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// nextPurge is what the next version of the plugin mysql calls the Operation that removes binary logs.
const nextPurge = "DropBinaryLogs"

// nextMySQL is a version of the plugin mysql that starts servers by another command line, for which processes are
// restarted, and has an Operation of another name.
func nextMySQL(s *framework.Namespace) *framework.Bundle {
	s.Helper()
	next := s.NewBundleOf("mysql")
	next.Replace(`mysql, start, "--host=`, `mysql, start, --program=mysqld, "--host=`)
	next.RenameOperation("PurgeBinaryLogs", nextPurge)
	takesOver(next)
	return next
}

// TestShippedPluginUpgradeOfMySQL is TestShippedPluginUpgrade for a group of three members under load: its processes
// are restarted in their pods, the primary last, and nothing is lost that was acknowledged. A version that nobody has,
// and the way back, are refused.
func TestShippedPluginUpgradeOfMySQL(t *testing.T) {
	s := framework.NewNamespace(t, "shippedmysql")
	s.RestoreOperatorAtEnd()
	next := nextMySQL(s)
	fresh := &databasev1.MySQLCluster{ObjectMeta: framework.ObjectMeta("fresh")}
	fresh.Spec.InstanceSpec = mysqlSpec(mysqlVersion).InstanceSpec
	beginsWith(s, framework.OriginalVersion, fresh,
		func(obj client.Object) string { return string(obj.(*databasev1.MySQLCluster).Spec.PluginVersion) })
	g := makeMySQLGroup(s, "db")
	g.waitReady()
	g.exec(g.bound(), "CREATE TABLE numbers (n INT PRIMARY KEY)")
	u := &framework.PluginUpgrade{Application: g.application(), From: framework.OriginalVersion, To: next.Version,
		Target: g.reference(), Processes: g.application().ProcessStarts, Effect: inPlace}
	lacks(u, nextPurge, "hours", "24")
	begin(u)
	b := g.binding()
	trial := g.startTrial(b["host"], b["port"])
	upgradeUnderKills(s, u)
	trial.end("another version of the plugin", framework.FailoverGapLimit)
	g.wholeGroup(3)
	if got := g.object().Spec.PluginVersion; string(got) != next.Version {
		t.Errorf("the MySQLCluster declares version %s", got)
	}
	g.Create(framework.NewOperation("purge", nextPurge, g.reference(), "hours", "24"))
	g.WaitForOperation("purge")
	expectUntouched(u)
}
