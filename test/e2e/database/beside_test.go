// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/bench/faults"
	"github.com/zeroinfra/test/e2e/framework"
)

// contender is a Redis on one of two sides, under the faults of both.
type contender interface {
	side() faults.Side
	// in is the same for a subtest.
	in(t *testing.T) contender
	// rests waits until nothing of an earlier fault is left, and heals until a fault under load is over.
	rests()
	heals()
	// primary is one of the pods that take writes: the next one in each round.
	primary(round int) string
	// kill ends the process of a pod with SIGKILL.
	kill(pod string)
	// ReplacePod deletes a pod by force, and waits until there is another one.
	ReplacePod(pod string, options ...client.DeleteOption)
	// begins to write, and the end of it says what was seen.
	begins() (end func() framework.Verdict)
}

// configuredAlike are the settings that the servers of both sides have the same: what is kept when, when a member
// counts as failed, and when a replica gets what it lacks.
var configuredAlike = []string{"appendonly", "appendfsync", "save", "repl-diskless-sync-delay", "repl-timeout",
	"repl-ping-replica-period", "repl-backlog-size"}

// clusteredAlike are those of members of a Redis Cluster beyond that.
var clusteredAlike = []string{"cluster-node-timeout", "cluster-replica-validity-factor",
	"cluster-require-full-coverage", "cluster-allow-replica-migration"}

// TestBesideTheBareMechanism tries the same faults on what the product runs and on what the middleware alone makes of
// pods of a StatefulSet, in turn, on one cluster, with the same image, the same settings and the same clients: it is
// the operator and the agents that differ. No write may be lost on our side that a replica had; what the other side
// loses is told. It runs alone because it measures. What a RedisCluster takes to be made, beside such pods, is measured
// by TestRedisClusterIsMadeInTime.
func TestBesideTheBareMechanism(t *testing.T) {
	t.Run("Redis Cluster", func(t *testing.T) {
		s := framework.NewNamespace(t, "besidecluster")
		r := createRedisCluster(s, "shop")
		r.ready()
		r.whole(3)
		settings := map[string]string{}
		for _, name := range slices.Concat(configuredAlike, clusteredAlike) {
			settings[name] = r.config(r.primary("0"), name)
		}
		t.Logf("both sides have %v", settings)
		inTurn(t, "cluster", &ourCluster{r}, &plainCluster{createBareCluster(s, "plain", settings)})
	})
	t.Run("Sentinel", func(t *testing.T) {
		s := framework.NewNamespace(t, "besidesentinel")
		i := s.CreateRedis("db", framework.WithReplicas(2), framework.WithSentinels(3), framework.WithFsyncAlways())
		i.WaitReadyCondition()
		e := &elected{Instance: i, ways: s.NewPortForwards()}
		e.whole(2, 3)
		settings, watching := map[string]string{}, map[string]string{}
		for _, name := range configuredAlike {
			settings[name] = e.Config(name)
		}
		told, err := e.asks(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"down-after-milliseconds", "failover-timeout", "parallel-syncs"} {
			watching[name] = told[name]
		}
		t.Logf("both sides have %v, and Sentinels %v", settings, watching)
		inTurn(t, "Sentinel", &ourElected{e}, &plainElected{createBareElected(s, "plain", settings, watching)})
	})
	t.Logf("ours beside the bare mechanism:\n%s", framework.Comparison)
}

// inTurn tries each fault on both sides, one after the other; who is first changes with each round.
func inTurn(t *testing.T, title string, sides ...contender) {
	t.Helper()
	for round := range framework.Config.ComparisonRounds {
		for _, fault := range []struct {
			name string
			does func(c contender, primary string)
		}{
			{"process killed", func(c contender, primary string) { c.kill(primary) }},
			{"pod deleted by force", func(c contender, primary string) { c.ReplacePod(primary, framework.GraceZero) }},
		} {
			for n := range sides {
				c := sides[(round+n)%len(sides)]
				if !t.Run(fmt.Sprintf("%s, round %d, %s", fault.name, round+1, c.side()), func(t *testing.T) {
					c := c.in(t)
					c.rests()
					primary := c.primary(round)
					end := c.begins()
					fault.does(c, primary)
					c.heals()
					v, name := end(), title+": "+fault.name
					v.RecordComparison(c.side(), name)
					if c.side() == faults.Ours {
						v.ExpectWithin(t, name, expiryGap)
						return
					}
					t.Logf("%s without an operator: %d writes acknowledged, lost %d, longest gap %s", name, v.Acknowledged, v.Lost,
						framework.FormatSeconds(v.Gap))
				}) {
					return
				}
			}
		}
	}
}

// ourCluster is a RedisCluster.
type ourCluster struct{ *redisCluster }

func (c *ourCluster) side() faults.Side { return faults.Ours }

func (c *ourCluster) in(t *testing.T) contender { return &ourCluster{c.redisCluster.in(t)} }

func (c *ourCluster) rests() { c.whole(3) }

func (c *ourCluster) heals() { c.whole(3) }

func (c *ourCluster) primary(round int) string {
	return c.redisCluster.primary(strconv.Itoa(round % 3))
}

func (c *ourCluster) kill(pod string) { c.signal(pod, "KILL") }

func (c *ourCluster) begins() func() framework.Verdict { return c.load().end }

// plainCluster is a Redis Cluster without an operator.
type plainCluster struct{ *bareCluster }

func (c *plainCluster) side() faults.Side { return faults.Bare }

func (c *plainCluster) in(t *testing.T) contender { return &plainCluster{c.bareCluster.in(t)} }

func (c *plainCluster) rests() { c.bareCluster.rests(c.whole) }

func (c *plainCluster) heals() { c.bareCluster.heals(c.whole) }

func (c *plainCluster) primary(round int) string { return c.primaries()[round%3] }

func (c *plainCluster) begins() func() framework.Verdict {
	return loadWith(c.bareCluster.bareServers.bareSet.Namespace, c.client()).end
}

// ourElected is a Redis whose primary Sentinels elect.
type ourElected struct{ *elected }

func (c *ourElected) side() faults.Side { return faults.Ours }

func (c *ourElected) in(t *testing.T) contender { return &ourElected{c.elected.in(t)} }

func (c *ourElected) rests() { c.whole(2, 3) }

func (c *ourElected) heals() { c.whole(2, 3) }

func (c *ourElected) primary(int) string { return c.Object().Status.Primary }

func (c *ourElected) kill(pod string) { framework.ReplicatedRedisKind.Signal(c.Namespace, pod, "KILL") }

func (c *ourElected) begins() func() framework.Verdict { return c.writes(firstOfTrial()).judge }

// plainElected is the same without an operator.
type plainElected struct{ *bareElected }

func (c *plainElected) side() faults.Side { return faults.Bare }

func (c *plainElected) in(t *testing.T) contender { return &plainElected{c.bareElected.in(t)} }

func (c *plainElected) rests() { c.bareElected.rests(c.whole) }

func (c *plainElected) heals() { c.bareElected.heals(c.whole) }

func (c *plainElected) primary(int) string { return c.primaries()[0] }

func (c *plainElected) begins() func() framework.Verdict {
	return writesWith(c.bareElected.bareServers.bareSet.Namespace, c.client(), firstOfTrial()).judge
}

// firstOfTrial is the number that a trial begins with: one that was written in an earlier one is not taken for one of
// its own.
func firstOfTrial() int { return int(framework.Written.Add(1_000_000)) }
