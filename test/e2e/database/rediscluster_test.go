// SPDX-License-Identifier: Apache-2.0

package database

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestRedisCluster takes a Redis Cluster through its life under the load of a real client for Redis Cluster: no write
// is lost that a replica had, every slot is served again after each fault, and no pod goes before it has given its
// slots away. It runs alone because it measures.
func TestRedisCluster(t *testing.T) {
	s := framework.NewNamespace(t, "rediscluster")
	r := createRedisCluster(s, "shop")
	took := r.ready()
	r.whole(3)
	r.placed()
	s.CreateSecret("users", "password", clusterPassword)
	r.update(func(spec *databasev1.RedisClusterSpec) {
		spec.Users = []databasev1.RedisUser{
			{Name: "app", PasswordFrom: platformv1.SecretKeyReference{Name: "users"}, Keys: "~*", Commands: "+@read +ping"}}
	})
	t.Logf("3 shards of 2 pods are ready after %s: %v", framework.FormatSeconds(took),
		r.TableColumns(databasev1.GroupVersion.WithResource("redisclusters"), r.name))
	r.ExpectTableColumns(databasev1.GroupVersion.WithResource("redisclusters"), r.name, "Version", "Shards", "Roles",
		"Pods", "Endpoint")
	if got := r.object().Status.Roles; got != "3 primaries, 3 replicas" {
		t.Errorf("status.roles is %q", got)
	}
	for round := range framework.Config.FaultRounds {
		for _, fault := range clusterFaults(round) {
			t.Run(fault.Name, func(t *testing.T) {
				r := r.in(t)
				load := r.load()
				fault.does(r)
				r.whole(fault.shards)
				load.judge(fault)
			})
		}
	}
	r.idle()
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Users = nil })
	for _, pod := range r.pods() {
		c := r.as(pod.Name, "app", clusterPassword)
		r.Eventually(framework.SettleTimeout, pod.Name+" lets the user in no more", func() error {
			if err := c.Ping(r.Ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
				return fmt.Errorf("it says %v", err)
			}
			return nil
		})
	}
}

// TestRedisClusterOverTLS has the servers speak TLS, also to each other, while a process is killed under load.
func TestRedisClusterOverTLS(t *testing.T) {
	s := framework.NewNamespace(t, "clustertls")
	r := createRedisCluster(s, "shop", func(spec *databasev1.RedisClusterSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true}
	})
	r.ready()
	r.whole(3)
	ca := []byte(r.account().CA)
	for _, pod := range r.pods() {
		for name, want := range map[string]string{"tls-cluster": "yes", "tls-replication": "yes", "port": "0"} {
			if got := r.config(pod.Name, name); got != want {
				t.Errorf("%s has %s %q, want %q", pod.Name, name, got, want)
			}
		}
		for _, port := range []int{6379, 16379} {
			r.MustServerCertificate(r.ways.Address(pod.Name, port), r.security(r.account(), pod.Name).ServerName, ca)
		}
	}
	fault := clusterFaults(0)[0]
	fault.Name += ", TLS"
	load := r.load()
	fault.does(r)
	r.whole(fault.shards)
	load.judge(fault)
	r.losesShard("2")
}

// clusterFaults of a round. There is one way to another version, and so one round of it.
func clusterFaults(round int) []clusterFault {
	faults := []clusterFault{
		{framework.Fault{Name: "cluster: process killed", Limit: framework.FailoverGapLimit}, 3,
			func(r *redisCluster) { r.signal(r.primary("0"), "KILL") }},
		{framework.Fault{Name: "cluster: process stopped", Limit: framework.FailoverGapLimit}, 3, func(r *redisCluster) {
			before := r.primary("0")
			r.signal(before, "STOP")
			r.succeeded("0", before)
			// It goes on where it stopped, and has to find out that it is the primary no more.
			r.signal(before, "CONT")
		}},
		{framework.Fault{Name: "cluster: pod deleted", Limit: framework.FailoverGapLimit}, 3, func(r *redisCluster) {
			// Whether it is back before a replica takes over is for the node to say.
			before, uids := r.primary("1"), r.uids()
			r.deletePods(before)
			r.Eventually(framework.SettleTimeout, "there is another pod", func() error {
				if now, is := r.uids()[before]; !is || now == uids[before] {
					return fmt.Errorf("it is %q, and was %q", now, uids[before])
				}
				return nil
			})
		}},
		{framework.Fault{Name: "cluster: pod evicted", Limit: framework.FailoverGapLimit}, 3, (*redisCluster).evicted},
		{framework.Fault{Name: "cluster: pod and volume deleted", Limit: framework.FailoverGapLimit}, 3,
			func(r *redisCluster) {
				before := r.primary("2")
				id := r.ids()[before]
				claim := &corev1.PersistentVolumeClaim{}
				r.MustGet(platformv1.ClaimNameFor("data", before), claim)
				r.Delete(claim)
				r.deletePods(before)
				r.succeeded("2", before)
				r.whole(3)
				if r.ids()[before] == id {
					r.Errorf("pod %s has the node id %s as before: its volume was not lost", before, id)
				}
			}},
		{framework.Fault{Name: "cluster: all pods deleted", Limit: expiryGap}, 3, func(r *redisCluster) {
			before := r.ids()
			r.deletePods(slices.Collect(maps.Keys(before))...)
			r.whole(3)
			if after := r.ids(); !maps.Equal(before, after) {
				r.Errorf("the nodes were %v, and are %v", before, after)
			}
		}},
	}
	faults = append(append(faults, clusterScales()...), clusterPlans(round)...)
	if round == 0 {
		faults = append(faults, clusterVersions()...)
	}
	return faults
}

// clusterScales have more and fewer shards.
func clusterScales() []clusterFault {
	scale := func(shards int32) func(*redisCluster) {
		return func(r *redisCluster) { r.reshape(func(spec *databasev1.RedisClusterSpec) { spec.Shards = shards }) }
	}
	return []clusterFault{
		{framework.Fault{Name: "cluster: a shard more", Limit: framework.FailoverGapLimit}, 4, func(r *redisCluster) {
			end := r.bench()
			scale(4)(r)
			r.whole(4)
			end()
		}},
		{framework.Fault{Name: "cluster: a shard less, for which there is no room at first",
			Limit: framework.FailoverGapLimit}, 3, (*redisCluster).withoutRoom},
		{framework.Fault{Name: "cluster: a shard more, and then not", Limit: framework.FailoverGapLimit}, 3,
			func(r *redisCluster) {
				r.update(func(spec *databasev1.RedisClusterSpec) { spec.Shards = 4 })
				came := platformv1.PodNameFor(platformv1.WorkloadSetNameFor(r.application(), "node", "3"), 0)
				r.Eventually(framework.ReadyTimeout, "slots have come to the new shard", func() error {
					// All may have come before anybody looks.
					slots := r.slotsOf(came)
					if slots == 0 {
						return errors.New("it has none")
					}
					r.Logf("%d of %d slots have come", slots, allSlots/4)
					return nil
				})
				scale(3)(r)
			}},
	}
}

// clusterPlans restart all servers.
func clusterPlans(round int) []clusterFault {
	hz, backlog := strconv.Itoa(20+round), strconv.Itoa(200+round)
	return []clusterFault{
		{framework.Fault{Name: "cluster: parameters set while servers run", Limit: calmGap}, 3, func(r *redisCluster) {
			uids, runs := r.uids(), r.said("server", "run_id")
			// What the round before has left would restart them.
			left := r.object().Spec.Parameters
			dynamic := platformv1.Parameters{"hz": platformv1.ParameterValue(hz), "cluster-node-timeout": "6000"}
			maps.Copy(dynamic, left)
			set := func(parameters platformv1.Parameters, want map[string]string) {
				r.reshape(func(spec *databasev1.RedisClusterSpec) { spec.Parameters = parameters })
				r.whole(3)
				r.configured(want)
			}
			set(dynamic, map[string]string{"hz": hz, "cluster-node-timeout": "6000"})
			set(left, map[string]string{"hz": "10", "cluster-node-timeout": "5000"})
			if !maps.Equal(uids, r.uids()) || !maps.Equal(runs, r.said("server", "run_id")) {
				r.Error("processes were restarted: CONFIG SET takes these parameters")
			}
		}},
		{framework.Fault{Name: "cluster: processes restarted", Limit: framework.FailoverGapLimit}, 3, func(r *redisCluster) {
			uids := r.uids()
			r.reshape(func(spec *databasev1.RedisClusterSpec) {
				spec.Parameters = platformv1.Parameters{"tcp-backlog": platformv1.ParameterValue(backlog)}
			})
			r.whole(3)
			if !maps.Equal(uids, r.uids()) {
				r.Error("pods were replaced: a parameter restarts processes in place")
			}
			r.configured(map[string]string{"tcp-backlog": backlog})
		}},
		{framework.Fault{Name: "cluster: restarted by an Operation", Limit: framework.InPlaceGapLimit}, 3,
			func(r *redisCluster) {
				before, runs := r.primaries(), r.said("server", "run_id")
				name := fmt.Sprintf("restart-%d", round)
				r.Create(framework.NewRestartOperation(name, r.reference()))
				r.WaitForOperation(name)
				r.whole(3)
				after, ran := r.primaries(), r.said("server", "run_id")
				for shard, pod := range before {
					if after[shard] == pod {
						r.Errorf("%s was restarted as the primary of shard %s", pod, shard)
					}
				}
				for pod, run := range runs {
					if ran[pod] == run {
						r.Errorf("the process of %s is the one before", pod)
					}
				}
			}},
	}
}

// configured has each server say its parameters.
func (r *redisCluster) configured(want map[string]string) {
	r.Helper()
	for _, pod := range r.pods() {
		for name, value := range want {
			if got := r.at(pod.Name).ConfigGet(r.Ctx, name).Val()[name]; got != value {
				r.Errorf("pod %s has %s %q, want %q", pod.Name, name, got, value)
			}
		}
	}
}

func clusterVersions() []clusterFault {
	return []clusterFault{
		{framework.Fault{Name: "cluster: another version", Limit: framework.FailoverGapLimit}, 3, func(r *redisCluster) {
			r.reshape(func(spec *databasev1.RedisClusterSpec) { spec.Version = "8.0" })
			r.whole(3)
			for pod, version := range r.said("server", "redis_version") {
				if !strings.HasPrefix(version, "8.0.") || r.object().Status.Version != version {
					r.Errorf("%s is of version %s, and the status says %s", pod, version, r.object().Status.Version)
				}
			}
		}},
		{framework.Fault{Name: "cluster: pod deleted, another version", Limit: framework.FailoverGapLimit}, 3,
			func(r *redisCluster) { r.deletePods(r.primary("0")) }},
	}
}

// primaries by shard.
func (r *redisCluster) primaries() map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, m := range r.object().Status.Members {
		if m.Role == "primary" {
			all[m.Shard] = m.Name
		}
	}
	return all
}

// said is a field of INFO by pod.
func (r *redisCluster) said(section, field string) map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, pod := range r.pods() {
		all[pod.Name] = r.info(pod.Name, section, field)
	}
	return all
}

// info is a field of INFO of one server.
func (r *redisCluster) info(pod, section, field string) string {
	r.Helper()
	var info string
	to := r.at(pod)
	r.Eventually(framework.SettleTimeout, pod+" says "+field, func() (err error) {
		info, err = to.Info(r.Ctx, section).Result()
		return err
	})
	return framework.InfoField(info, field)
}

// config is a setting of one server.
func (r *redisCluster) config(pod, name string) string {
	r.Helper()
	var settings map[string]string
	to := r.at(pod)
	r.Eventually(framework.SettleTimeout, pod+" says "+name, func() (err error) {
		settings, err = to.ConfigGet(r.Ctx, name).Result()
		return err
	})
	return settings[name]
}

// slotsOf is how many slots a server takes itself for the owner of.
func (r *redisCluster) slotsOf(pod string) int {
	r.Helper()
	found := &corev1.Pod{}
	if err := r.Get(pod, found); err != nil || found.Status.PodIP == "" {
		return 0
	}
	nodes, err := r.at(pod).ClusterNodes(r.Ctx).Result()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(nodes) {
		if strings.Contains(line, "myself") {
			return slotsIn(line)
		}
	}
	return 0
}

// withoutRoom fills the servers, so that those who stay have no room for what would come to them: that is refused with
// numbers, and nothing goes, until there is.
func (r *redisCluster) withoutRoom() {
	r.Helper()
	client, value := r.client(), strings.Repeat("x", 8<<10)
	const filler, together = 3200, 40
	for n := 0; n < filler; n += together {
		r.Eventually(framework.SettleTimeout, "the servers are filled", func() error {
			_, err := client.Pipelined(r.Ctx, func(p redis.Pipeliner) error {
				for number := range together {
					p.Set(r.Ctx, fmt.Sprintf("filler:%d", n+number), value, 0)
				}
				return nil
			})
			return err
		})
	}
	uids := r.uids()
	for _, pod := range r.pods() {
		used, err := strconv.Atoi(r.info(pod.Name, "memory", "used_memory"))
		if err != nil {
			r.Fatal(err)
		}
		// A third of 6 MiB would come to each.
		r.limit(pod.Name, used+2<<20)
	}
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Shards = 3 })
	r.Eventually(framework.ReadyTimeout, "that is refused", func() error {
		said := framework.Describe(r.object().Status.Conditions)
		if !strings.Contains(said, platformv1.ReasonMembersRefused) || !strings.Contains(said, "there is no room") ||
			!strings.Contains(said, " MiB of ") {
			return errors.New(said)
		}
		return nil
	})
	r.Log(framework.Describe(r.object().Status.Conditions))
	if now := r.uids(); !maps.Equal(uids, now) {
		r.Errorf("the pods were %v and are %v: what is refused must touch nothing", uids, now)
	}
	for pod := range uids {
		r.limit(pod, 0)
	}
	r.ready()
}

// limit sets maxmemory of a server, in bytes.
func (r *redisCluster) limit(pod string, bytes int) {
	r.Helper()
	to := r.at(pod)
	r.Eventually(framework.SettleTimeout, pod+" takes a limit",
		func() error { return to.ConfigSet(r.Ctx, "maxmemory", strconv.Itoa(bytes)).Err() })
}

// reshape changes the spec, and waits until the cluster is as asked and that is on record.
func (r *redisCluster) reshape(change func(*databasev1.RedisClusterSpec)) {
	r.Helper()
	before := r.applied()
	r.update(change)
	r.reshaped(before)
}

// reshaped waits until the cluster is as asked, and the change is on record as one that succeeded, beside the records
// before it.
func (r *redisCluster) reshaped(before map[string]platformv1.OperationPhase) {
	r.Helper()
	told := map[string]bool{}
	r.Eventually(2*framework.ReadyTimeout, "the cluster is as asked", func() error {
		cluster := r.object()
		err := framework.ReadyNow(cluster, cluster.Status.ObservedGeneration)
		if err != nil {
			told[err.Error()] = true
		}
		return err
	})
	for _, text := range slices.Sorted(maps.Keys(told)) {
		r.Log(text)
	}
	r.Eventually(framework.SettleTimeout, "the change is on record", func() error {
		records := r.applied()
		// Those that had ended before are of other changes.
		maps.DeleteFunc(records, func(name string, _ platformv1.OperationPhase) bool {
			phase, was := before[name]
			return was && phase != platformv1.OperationRunning && phase != platformv1.OperationPending
		})
		for _, phase := range records {
			if phase != platformv1.OperationSucceeded {
				return fmt.Errorf("the records are %v", records)
			}
		}
		if len(records) == 0 {
			return errors.New("there is no record")
		}
		return nil
	})
}

// applied are the records of edited specs.
func (r *redisCluster) applied() map[string]platformv1.OperationPhase {
	r.Helper()
	var list platformv1.OperationList
	if err := framework.Cluster.Client.List(r.Ctx, &list, client.InNamespace(r.Namespace.Name)); err != nil {
		r.Fatal(err)
	}
	phases := map[string]platformv1.OperationPhase{}
	for _, op := range list.Items {
		if op.Spec.TemplateRef == "Apply" {
			phases[op.Name] = op.Status.Phase
		}
	}
	return phases
}

// idle checks that a cluster at rest costs the API server nothing.
func (r *redisCluster) idle() {
	r.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		component := &platformv1.Component{}
		r.MustGet(r.application()+"-node", component)
		all[component.Name] = component.ResourceVersion
		for _, pod := range r.pods() {
			all[pod.Name] = pod.ResourceVersion
		}
		return all
	}
	// What members report late of the change before is no cost of rest.
	before, since := versions(), time.Now()
	r.Eventually(framework.SettleTimeout, "the cluster comes to rest", func() error {
		if now := versions(); !maps.Equal(now, before) {
			before, since = now, time.Now()
		}
		if rested := time.Since(since); rested < framework.QuietPeriod {
			return fmt.Errorf("nothing was written for %s", framework.FormatSeconds(rested))
		}
		return nil
	})
	r.Throughout(quiet, "nothing is written of a cluster at rest", func() error {
		if after := versions(); !maps.Equal(before, after) {
			return fmt.Errorf("it was %v, and is %v", before, after)
		}
		return nil
	})
}
