// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlImage is that of the servers that a group of a test has.
var mysqlImage = "zeroinfra/mysql:" + mysqlVersion

// TestMySQLClusterIsMadeInTime makes a MySQLCluster of three members, and a StatefulSet of three servers that know
// nothing of each other, in turn. It says how the times compare, and what a creation costs of API writes; a group at
// rest costs none. It runs alone because it measures.
func TestMySQLClusterIsMadeInTime(t *testing.T) {
	s := framework.NewNamespace(t, "mysqlmaking")
	var ours, bare []time.Duration
	for n := range makings {
		bare = append(bare, makesBareMySQL(s, fmt.Sprintf("bare%d", n)))
		audit, begun := framework.StartAudit(t), time.Now()
		g := makeMySQLGroup(s, fmt.Sprintf("db%d", n))
		g.waitReady()
		ours = append(ours, time.Since(begun))
		s.Flush(audit)
		writes := of(g.application().Name, framework.WritesInNamespace(s.Name, audit.Writes()))
		t.Logf("API writes from apply to Ready: operator %d, agents %d, budget %d:%s",
			framework.CountWrites(writes, framework.OperatorActor), framework.CountWrites(writes, framework.AgentsActor),
			mysqlWriteBudget, framework.Tally(writes))
		product := framework.CountWrites(writes, framework.OperatorActor) +
			framework.CountWrites(writes, framework.AgentsActor)
		if product > mysqlWriteBudget {
			t.Errorf("operator and agents made %d writes, want at most %d", product, mysqlWriteBudget)
		}
		for _, w := range framework.Conflicts(writes) {
			t.Errorf("conflict: %s", w)
		}
		if n == 0 {
			restsWithoutWrites(g)
		}
		s.Delete(g.object(), client.PropagationPolicy(metav1.DeletePropagationForeground))
		emptied(s)
	}
	slices.Sort(ours)
	slices.Sort(bare)
	t.Logf("apply to Ready of three members: MySQLCluster %v, StatefulSet %v: %.2f times as long", ours, bare,
		ours[makings/2].Seconds()/bare[makings/2].Seconds())
}

// mysqlWriteBudget is what a creation of three pods, one component and one set may write.
const mysqlWriteBudget = 6*3 + 6*(1+1) + 30

// restsWithoutWrites waits until a group has come to rest, and then sees that nobody writes for it.
func restsWithoutWrites(g *mysqlGroup) {
	g.Helper()
	versions := func() string { return g.application().Object().ResourceVersion + fmt.Sprint(g.podVersions()) }
	before, since := versions(), time.Now()
	g.Eventually(framework.SettleTimeout, "the group comes to rest", func() error {
		if now := versions(); now != before {
			before, since = now, time.Now()
		}
		if rested := time.Since(since); rested < framework.QuietPeriod {
			return fmt.Errorf("nothing was written for %s", framework.FormatSeconds(rested))
		}
		return nil
	})
	audit := framework.StartAudit(g.T)
	g.Throughout(framework.Config.Idle, "somebody wrote for a group at rest", func() error {
		writes := of(g.application().Name, framework.WritesInNamespace(g.Namespace.Name, audit.Writes()))
		if len(writes) > 0 {
			return fmt.Errorf("%d writes:%s", len(writes), framework.Tally(writes))
		}
		return nil
	})
}

// podVersions are the resource versions of the members.
func (g *mysqlGroup) podVersions() []string {
	g.Helper()
	var all []string
	for _, pod := range g.application().Pods() {
		all = append(all, pod.Name+"="+pod.ResourceVersion)
	}
	return all
}

// makesBareMySQL makes a StatefulSet of three servers, and removes it once they are ready. It returns how long they
// took: each makes its data first, as a member does.
func makesBareMySQL(s *framework.Namespace, name string) time.Duration {
	s.Helper()
	begun, asked := time.Now(), mysqlSpec(mysqlVersion).InstanceSpec
	set := createBareSetOf(s, name, mysqlImage, &asked, 3, 3306, "sh", "-c", "mysqld --initialize-insecure "+
		"--datadir=/data/mysql && exec mysqld --datadir=/data/mysql --socket=/tmp/mysql.sock --mysqlx=OFF "+
		"--innodb-redo-log-capacity=32M --max-connections=40")
	set.ready()
	took := time.Since(begun)
	s.Delete(&appsv1.StatefulSet{ObjectMeta: framework.ObjectMeta(name)},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	emptied(s)
	return took
}
