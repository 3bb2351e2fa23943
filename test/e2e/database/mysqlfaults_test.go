// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// mysqlFault is something that happens to the primary.
type mysqlFault struct {
	name string
	does func(g *mysqlGroup, primary string)
	// stays says that the primary is the same afterwards.
	stays bool
}

// tried is one trial of a fault, for clients of a Service.
func (f *mysqlFault) tried(g *mysqlGroup, host, port, named string) {
	g.Helper()
	primary := g.primaryPod().Name
	trial := g.startTrial(host, port)
	f.does(g, primary)
	if !f.stays {
		g.waitForAnother(primary)
	}
	trial.end(named, framework.FailoverGapLimit)
	// The next fault is that of a whole group, whatever the object was last told of this one.
	g.wholeGroup(3)
}

// mysqlFaults are those of a round. The API server is away for long in the first one only.
func mysqlFaults(round int) []mysqlFault {
	away, how := framework.Config.APIAway, apiStopped
	if round > 0 {
		away = min(away, framework.DefaultAPIAway)
	}
	if round%2 == 1 {
		how = apiKilled
	}
	return []mysqlFault{
		{name: "process killed", does: func(g *mysqlGroup, primary string) { g.signal(primary, "KILL") }},
		{name: "process stopped", does: func(g *mysqlGroup, primary string) {
			g.signal(primary, "STOP")
			g.waitForAnother(primary)
			g.signal(primary, "CONT")
		}},
		{name: "pod deleted", does: func(g *mysqlGroup, primary string) { g.deletePod(primary) }},
		{name: "pod deleted by force",
			does: func(g *mysqlGroup, primary string) { g.deletePod(primary, framework.GraceZero) }},
		{name: "pod and volume deleted", does: func(g *mysqlGroup, primary string) {
			g.deleteClaim(primary)
			g.deletePod(primary, framework.GraceZero)
		}},
		{name: "switched over", does: func(g *mysqlGroup, _ string) {
			op := framework.NewOperation(fmt.Sprintf("switch-%d", time.Now().UnixNano()), "Switchover", g.reference())
			g.Create(op)
			g.WaitForOperation(op.Name)
		}},
		{name: "API server away", stays: true,
			does: func(g *mysqlGroup, _ string) { apiServerAway(g.Namespace, away, how) }},
	}
}

// newMySQLTrials makes a group with the table that trials write to.
func newMySQLTrials(t *testing.T, namespace string) *mysqlGroup {
	t.Helper()
	g := newMySQLGroup(t, namespace)
	g.waitReady()
	g.exec(g.bound(), "CREATE TABLE numbers (n INT PRIMARY KEY)")
	return g
}

// TestMySQLFaults has the primary of a group fail in each way, in rounds, and measures for how long nobody writes.
func TestMySQLFaults(t *testing.T) {
	g := newMySQLTrials(t, "mysqlfaults")
	b := g.binding()
	for round := range framework.Config.FaultRounds {
		for _, fault := range mysqlFaults(round) {
			t.Run(fmt.Sprintf("%s, round %d", fault.name, round+1), func(t *testing.T) {
				fault.tried(g.in(t), b["host"], b["port"], fault.name)
			})
		}
	}
}

// TestMySQLFailoverOfANode cuts off the node of the primary: the others elect another one, and the former one
// acknowledges nothing beside it.
func TestMySQLFailoverOfANode(t *testing.T) {
	g := newMySQLTrials(t, "mysqlnode")
	b := g.binding()
	for round := range framework.Config.FaultRounds {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			g := g.in(t)
			primary := g.primaryPod().Name
			node := g.NodeOf(primary)
			g.VacateNode(node, framework.OperatorNamespace, "kube-system")
			trial := g.startTrial(b["host"], b["port"])
			leave := trial.startIsolatedSession(primary)
			framework.DevCluster(t, "node", "cut", node)
			heal := sync.OnceFunc(func() { framework.DevCluster(t, "node", "heal", node) })
			defer heal()
			g.waitForAnother(primary)
			trial.writer.waitForAll("while the node is cut off")
			heal()
			leave()
			trial.end("node cut off", expiryGap)
			g.wholeGroup(3)
		})
	}
}

// mysqlFailoverSteps is how many writes of a failover are tried. The last of them are of the member that joins again.
const mysqlFailoverSteps = 8

// TestMySQLOperatorKilledDuringFailover kills the operator (SIGKILL from the node) after its 0th, 1st, 2nd … write of a
// failover, under load: the group elects another primary by itself, the next operator goes on from what it finds, and
// the member that failed is in again.
func TestMySQLOperatorKilledDuringFailover(t *testing.T) {
	g := newMySQLTrials(t, "mysqlkills")
	// A spare replica, so that a round lasts as long as the Lease and not as a pod's start on top.
	g.RestoreOperatorAtEnd()
	g.MustInstall(framework.OperatorName, "replicas=2")
	b := g.binding()
	for n := range framework.Config.FaultRounds * mysqlFailoverSteps {
		after := n % mysqlFailoverSteps
		t.Run(fmt.Sprintf("round %d, after %d writes", n/mysqlFailoverSteps+1, after), func(t *testing.T) {
			g := g.in(t)
			g.MustLeader()
			primary := g.primaryPod().Name
			trial := g.startTrial(b["host"], b["port"])
			end, audit := g.PrepareOperatorKill(), framework.StartAudit(t)
			g.signal(primary, "KILL")
			g.Eventually(framework.SettleTimeout, fmt.Sprintf("the operator has made %d writes", after), func() error {
				made := framework.CountWrites(framework.WritesInNamespace(g.Namespace.Name, audit.Writes()),
					framework.OperatorActor)
				obj := g.object()
				over := obj.Status.Primary != primary && framework.ReadyNow(obj, obj.Status.ObservedGeneration) == nil
				if made < after && !over {
					return fmt.Errorf("it has made %d", made)
				}
				return nil
			})
			end()
			g.waitForAnother(primary)
			trial.end("operator killed in a step", expiryGap)
			g.wholeGroup(3)
		})
	}
}

// TestMySQLOperatorKilledDuringCreation kills the operator after some of its writes for a new group. However far it
// came, the next one finishes: there is one group of all members, which nobody has begun twice.
func TestMySQLOperatorKilledDuringCreation(t *testing.T) {
	s := framework.NewNamespace(t, "mysqlcreation")
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	whole := 0
	for round := range framework.Config.KillRounds + 1 {
		name := fmt.Sprintf("round%d", round)
		t.Run(name, func(t *testing.T) {
			s := s.In(t)
			s.MustLeader()
			end, audit := s.PrepareOperatorKill(), framework.StartAudit(t)
			g := makeMySQLGroup(s, name)
			made := func() int {
				return framework.CountWrites(of(g.application().Name, framework.WritesInNamespace(s.Name, audit.Writes())),
					framework.OperatorActor)
			}
			// The first one is undisturbed, and tells how many writes there are.
			if round > 0 {
				after := (round - 1) * whole / max(framework.Config.KillRounds-1, 1)
				s.Eventually(framework.ReadyTimeout, fmt.Sprintf("the operator has made %d writes", after), func() error {
					if n := made(); n < after && framework.ReadyNow(g.object(), g.object().Status.ObservedGeneration) != nil {
						return fmt.Errorf("it has made %d", n)
					}
					return nil
				})
				end()
			}
			g.waitReady()
			if round == 0 {
				s.Flush(audit)
				whole = made()
				t.Logf("an undisturbed creation: %d writes of the operator", whole)
			}
			g.wholeGroup(3)
			s.Delete(g.object())
			emptied(s)
		})
	}
}

// wholeGroup waits until each member sees so many members in one group.
func (g *mysqlGroup) wholeGroup(members int) {
	g.Helper()
	views := map[string]bool{}
	for _, pod := range g.members() {
		g.waitForPod(&pod, fmt.Sprint(members),
			"SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'")
		view, err := g.askPod(pod.Name,
			"SELECT SUBSTRING_INDEX(VIEW_ID, ':', 1) FROM performance_schema.replication_group_member_stats LIMIT 1")
		if err != nil {
			g.Fatal(err)
		}
		views[view] = true
	}
	if len(views) != 1 {
		g.Errorf("members are in the groups %v", views)
	}
}

// TestMySQLVolumeFull has the volume of a replica, and then that of the primary, be full under load. Nothing is lost
// that was acknowledged, and all members are back when there is room.
func TestMySQLVolumeFull(t *testing.T) {
	for _, role := range []string{"replica", "primary"} {
		t.Run(role, func(t *testing.T) {
			g := newMySQLTrials(t, "mysqlfull"+role)
			b := g.binding()
			pod := g.replica()
			if role == "primary" {
				pod = g.primaryPod()
			}
			trial := g.startTrial(b["host"], b["port"])
			// What is left of the volume, but for what a file system keeps for itself. It ends with an error when that is full.
			_, _ = framework.Run(g.Ctx, g.Namespace.Name, pod.Name, "mysql", "", "sh", "-c",
				"dd if=/dev/zero of=/data/filler bs=1M; dd if=/dev/zero of=/data/filler.rest bs=4k")
			free, err := framework.Run(g.Ctx, g.Namespace.Name, pod.Name, "mysql", "", "sh", "-c",
				"df -P -k /data | tail -n 1 | { read -r _ _ _ free _; echo $free; }")
			if err != nil || len(free) > 3 {
				t.Fatalf("%q KiB are free, %v: the volume is not full", free, err)
			}
			// Rows that have to go somewhere: the binary log of each member, and the tables.
			wide := g.external(b["host"], b["port"])
			_, err = wide.ExecContext(g.Ctx, "CREATE TABLE wide (n INT PRIMARY KEY AUTO_INCREMENT, s LONGTEXT)")
			for n := 0; n < 20 && err == nil; n++ {
				_, err = wide.ExecContext(g.Ctx, "INSERT INTO wide (s) VALUES (REPEAT('x', 1000000))")
			}
			t.Logf("with a full volume a client is told: %v", err)
			// The filler stays: it is more room that mends it.
			g.update(func(spec *databasev1.MySQLClusterSpec) { spec.Storage.Size = resource.MustParse("2Gi") })
			trial.end("volume of the "+role+" full", framework.AnyGap)
			g.wholeGroup(3)
		})
	}
}
