// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// allSlots of a Redis Cluster.
	allSlots = 16384
	// quiet is how long a cluster at rest is watched.
	quiet = 15 * time.Second
	// clients write at the same time.
	clients = 8
	// redisPort and sentinelPort are where servers and Sentinels listen.
	redisPort, sentinelPort = 6379, 26379
	// clusterPassword is that of the user of the tests.
	clusterPassword = "secret-of-app"
)

// redisCluster is one RedisCluster of a test.
type redisCluster struct {
	*framework.Namespace
	name string
	ways *framework.PortForwards
}

// smallCluster is a RedisCluster of six pods that ask for little.
func smallCluster() databasev1.RedisClusterSpec {
	return databasev1.RedisClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: "7.0",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage:        platformv1.InstanceStorage{Size: resource.MustParse("64Mi")},
			DeletionPolicy: platformv1.DeletionPolicyDelete,
		},
		RedisServers: databasev1.RedisServers{
			// What a process had not yet put into its file when it was killed is lost where it starts again in place.
			Persistence: databasev1.RedisPersistence{Mode: databasev1.PersistenceAOF, AppendFsync: databasev1.AppendFsyncAlways},
		},
		Shards:           3,
		ReplicasPerShard: new(int32(1)),
	}
}

// createRedisCluster creates a RedisCluster that asks for little and does not wait for it.
func createRedisCluster(s *framework.Namespace, name string,
	changes ...func(*databasev1.RedisClusterSpec)) *redisCluster {
	s.Helper()
	cluster := &databasev1.RedisCluster{ObjectMeta: framework.ObjectMeta(name), Spec: smallCluster()}
	for _, change := range changes {
		change(&cluster.Spec)
	}
	s.Create(cluster)
	return &redisCluster{Namespace: s, name: name, ways: s.NewPortForwards()}
}

func (r *redisCluster) in(t *testing.T) *redisCluster {
	return &redisCluster{Namespace: r.Namespace.In(t), name: r.name, ways: r.ways}
}

func (r *redisCluster) application() string {
	return platformv1.ApplicationNameFor("RedisCluster", r.name)
}

func (r *redisCluster) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: databasev1.GroupVersion.String(), Kind: "RedisCluster", Name: r.name}
}

func (r *redisCluster) object() *databasev1.RedisCluster {
	r.Helper()
	cluster := &databasev1.RedisCluster{}
	r.MustGet(r.name, cluster)
	return cluster
}

func (r *redisCluster) update(change func(*databasev1.RedisClusterSpec)) {
	r.Helper()
	cluster := r.object()
	before := cluster.DeepCopy()
	change(&cluster.Spec)
	if err := framework.Cluster.Client.Patch(r.Ctx, cluster, client.MergeFrom(before)); err != nil {
		r.Fatalf("cannot change RedisCluster %q: %v", r.name, err)
	}
}

func (r *redisCluster) pods() []corev1.Pod {
	r.Helper()
	return (&framework.Application{Namespace: r.Namespace, Name: r.application()}).Pods()
}

func (r *redisCluster) uids() map[string]types.UID {
	r.Helper()
	return (&framework.Application{Namespace: r.Namespace, Name: r.application()}).UIDs()
}

// ready waits until it is ready at its present generation, and returns how long that took.
func (r *redisCluster) ready() time.Duration {
	r.Helper()
	return r.Eventually(framework.ReadyTimeout, "the cluster is ready", func() error {
		cluster := r.object()
		return framework.ReadyNow(cluster, cluster.Status.ObservedGeneration)
	})
}

// whole waits until it is ready and each server says that all slots are served and none is open, and that it hears all
// others.
func (r *redisCluster) whole(shards int) {
	r.Helper()
	r.Eventually(framework.ReadyTimeout, fmt.Sprintf("the cluster is whole with %d shards", shards), func() error {
		cluster := r.object()
		if err := framework.ReadyNow(cluster, cluster.Status.ObservedGeneration); err != nil {
			return err
		}
		if want := fmt.Sprintf("%[1]d/%[1]d", shards); cluster.Status.Shards != want ||
			len(cluster.Status.Members) != 2*shards {
			return fmt.Errorf("the status says %s shards: %v", cluster.Status.Shards, cluster.Status.Members)
		}
		pods := r.pods()
		if len(pods) != 2*shards {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		for _, pod := range pods {
			if err := r.wholeFor(pod.Name, len(pods)); err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		return nil
	})
	r.spread()
	r.letsIn()
}

// wholeFor is what one server says.
func (r *redisCluster) wholeFor(pod string, members int) error {
	ctx, cancel := context.WithTimeout(r.Ctx, framework.AnswerTimeout)
	defer cancel()
	return saysWhole(ctx, r.at(pod), members)
}

// saysWhole is what a server says that keeps a Redis Cluster of so many members from being whole.
func saysWhole(ctx context.Context, to *redis.Client, members int) error {
	info, err := to.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for field, want := range map[string]string{"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(allSlots),
		"cluster_known_nodes": strconv.Itoa(members)} {
		if got := framework.InfoField(info, field); got != want {
			return fmt.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	nodes, err := to.ClusterNodes(ctx).Result()
	if err == nil && (strings.Contains(nodes, "[") || strings.Contains(nodes, "fail") ||
		strings.Contains(nodes, "disconnected")) {
		err = errors.New(nodes)
	}
	return err
}

// slotsIn is how many slots a node owns by its line in what a server says of all nodes.
func slotsIn(line string) (slots int) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return 0
	}
	for _, span := range fields[8:] {
		var from, to int
		if n, _ := fmt.Sscanf(span, "%d-%d", &from, &to); n == 2 {
			slots += to - from + 1
		} else if n == 1 {
			slots++
		}
	}
	return slots
}

// spread has the test fail where two pods of a shard are on one node.
func (r *redisCluster) spread() {
	r.Helper()
	taken := map[string]string{}
	for _, pod := range r.pods() {
		place := pod.Labels[platformv1.SetLabel] + " on " + pod.Spec.NodeName
		if other, is := taken[place]; is {
			r.Errorf("%s and %s are both of shard %s", pod.Name, other, place)
		}
		taken[place] = pod.Name
	}
}

// letsIn waits until each server lets in the users that are declared, who may do what is said and nothing else.
func (r *redisCluster) letsIn() {
	r.Helper()
	for _, user := range r.object().Spec.Users {
		for _, pod := range r.pods() {
			c := r.as(pod.Name, user.Name, clusterPassword)
			r.Eventually(framework.SettleTimeout, pod.Name+" lets "+user.Name+" in", func() error { return c.Ping(r.Ctx).Err() })
			r.Eventually(framework.EndpointTimeout, pod.Name+" keeps "+user.Name+" from its configuration", func() error {
				err := c.ConfigGet(r.Ctx, "hz").Err()
				if err == nil {
					r.Fatalf("%s tells %s its configuration", pod.Name, user.Name)
				}
				if !strings.Contains(err.Error(), "NOPERM") {
					return err
				}
				return nil
			})
		}
	}
}

// placed reads back where pods are to run: away from those of their shard above all, and from those that have the same
// part in other shards.
func (r *redisCluster) placed() {
	r.Helper()
	var nodes []string
	for _, pod := range r.pods() {
		nodes = append(nodes, pod.Name+" on "+pod.Spec.NodeName)
		weights := map[string]int32{}
		if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
			for _, term := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				for _, label := range []string{platformv1.SetLabel, platformv1.OrdinalLabel} {
					if value, is := term.PodAffinityTerm.LabelSelector.MatchLabels[label]; is && value == pod.Labels[label] {
						weights[label+" "+term.PodAffinityTerm.TopologyKey] = term.Weight
					}
				}
			}
		}
		want := map[string]int32{
			platformv1.SetLabel + " " + corev1.LabelHostname: 100, platformv1.SetLabel + " " + corev1.LabelTopologyZone: 40,
			platformv1.OrdinalLabel + " " + corev1.LabelTopologyZone: 10, platformv1.OrdinalLabel + " " +
				corev1.LabelHostname: 10,
		}
		if !maps.Equal(weights, want) {
			r.Errorf("pod %s keeps away by %v, want %v", pod.Name, weights, want)
		}
	}
	r.Log(nodes)
}

// ids are what the servers call themselves.
func (r *redisCluster) ids() map[string]string {
	r.Helper()
	ids := map[string]string{}
	for _, pod := range r.pods() {
		to := r.at(pod.Name)
		r.Eventually(framework.SettleTimeout, pod.Name+" says who it is", func() (err error) {
			ids[pod.Name], err = to.ClusterMyID(r.Ctx).Result()
			return err
		})
	}
	return ids
}

// primary of a shard, as the status says.
func (r *redisCluster) primary(shard string) string {
	r.Helper()
	var found string
	r.Eventually(framework.SettleTimeout, "shard "+shard+" has a primary", func() error {
		var names []string
		for _, m := range r.object().Status.Members {
			if m.Shard == shard && m.Role == "primary" {
				names = append(names, m.Name)
			}
		}
		// While one takes over from another, each may count as one for a moment.
		if len(names) != 1 {
			return fmt.Errorf("the status names %v", names)
		}
		found = names[0]
		return nil
	})
	return found
}

// succeeded waits until another pod is the primary of a shard.
func (r *redisCluster) succeeded(shard, before string) {
	r.Helper()
	took := r.Eventually(framework.SettleTimeout, "another pod than "+before+" is the primary of its shard", func() error {
		if now := r.primary(shard); now == before {
			return fmt.Errorf("it still is %s", now)
		}
		return nil
	})
	r.Logf("the status names another primary after %s", framework.FormatSeconds(took))
}

// handedOverIn is less than the time after which the others take a primary for gone.
const handedOverIn = 4 * time.Second

// evicted has a primary evicted, as a drain of its node does: it hands over before it ends, so that nobody has to
// notice that it is gone.
func (r *redisCluster) evicted() {
	r.Helper()
	before, candidate := &corev1.Pod{}, ""
	r.MustGet(r.primary("0"), before)
	for _, pod := range r.pods() {
		if pod.Labels[platformv1.SetLabel] == "0" && pod.Name != before.Name {
			candidate = pod.Name
		}
	}
	to := r.at(candidate)
	if err := r.Evict(before); err != nil {
		r.Fatal(err)
	}
	took := r.Eventually(handedOverIn, candidate+" is the primary", func() error {
		info, err := to.Info(r.Ctx, "replication").Result()
		if role := framework.InfoField(info, "role"); err == nil && role != "master" {
			err = fmt.Errorf("it is %s", role)
		}
		return err
	})
	r.Logf("%s took over after %s", candidate, framework.FormatSeconds(took))
	r.succeeded("0", before.Name)
}

func (r *redisCluster) signal(pod, signal string) {
	r.Helper()
	framework.ReplicatedRedisKind.Signal(r.Namespace, pod, signal)
}

func (r *redisCluster) deletePods(names ...string) {
	r.Helper()
	for _, name := range names {
		r.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace.Name, Name: name}}, framework.GraceZero)
	}
}

// way is the local address of a pod's server.
func (r *redisCluster) way(pod string) string { return r.ways.Address(pod, redisPort) }

// losesShard deletes all pods and volumes of a shard: nothing of it is handed out empty until somebody gives its data
// up, and somebody else agrees.
func (r *redisCluster) losesShard(shard string) {
	r.Helper()
	ids := r.ids()
	for _, pod := range r.pods() {
		if pod.Labels[platformv1.SetLabel] != shard {
			delete(ids, pod.Name)
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		r.MustGet(platformv1.ClaimNameFor("data", pod.Name), claim)
		r.Delete(claim)
		r.deletePods(pod.Name)
	}
	var id string
	r.Eventually(framework.ReadyTimeout, "the status says whose data is gone", func() error {
		said := framework.Describe(r.object().Status.Conditions)
		// The replica may have taken over before it was deleted.
		for _, id = range ids {
			if strings.Contains(said, "belong to node "+id) {
				return nil
			}
		}
		return errors.New(said)
	})
	r.CreateApproved(framework.NewOperation("abandon", "Abandon", r.reference(), "node", id))
	r.WaitForOperation("abandon")
	r.whole(3)
}
