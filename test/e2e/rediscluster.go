// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
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
)

const (
	// allSlots of a Redis Cluster.
	allSlots = 16384
	// quiet is how long a cluster at rest is watched.
	quiet = 15 * time.Second
	// clients write at the same time.
	clients = 8
	// answerIn is how long a server may take.
	answerIn = 2 * time.Second
)

// redisCluster is one RedisCluster of a test.
type redisCluster struct {
	*space
	name string
	ways *ways
}

// redisCluster creates a RedisCluster that asks for little and does not wait for it.
func (s *space) redisCluster(name string) *redisCluster {
	s.Helper()
	s.create(&databasev1.RedisCluster{ObjectMeta: named(name), Spec: databasev1.RedisClusterSpec{
		Version: "7.0", Shards: 3, ReplicasPerShard: new(int32(1)),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		Storage:        databasev1.RedisStorage{Size: resource.MustParse("64Mi")},
		DeletionPolicy: platformv1.DeletionPolicyDelete,
	}})
	return &redisCluster{space: s, name: name, ways: s.ways()}
}

func (r *redisCluster) in(t *testing.T) *redisCluster {
	return &redisCluster{space: r.space.in(t), name: r.name, ways: r.ways}
}

func (r *redisCluster) application() string {
	return platformv1.ApplicationNameFor("RedisCluster", r.name)
}

func (r *redisCluster) object() *databasev1.RedisCluster {
	r.Helper()
	cluster := &databasev1.RedisCluster{}
	r.mustGet(r.name, cluster)
	return cluster
}

func (r *redisCluster) update(change func(*databasev1.RedisClusterSpec)) {
	r.Helper()
	cluster := r.object()
	before := cluster.DeepCopy()
	change(&cluster.Spec)
	if err := world.client.Patch(r.ctx, cluster, client.MergeFrom(before)); err != nil {
		r.Fatalf("cannot change RedisCluster %q: %v", r.name, err)
	}
}

func (r *redisCluster) pods() []corev1.Pod {
	r.Helper()
	return (&application{space: r.space, name: r.application()}).pods()
}

func (r *redisCluster) uids() map[string]types.UID {
	r.Helper()
	return (&application{space: r.space, name: r.application()}).uids()
}

// ready waits until it is ready at its present generation, and returns how long that took.
func (r *redisCluster) ready() time.Duration {
	r.Helper()
	return r.eventually(readyIn, "the cluster is ready", func() error {
		cluster := r.object()
		return readyNow(cluster, cluster.Status.ObservedGeneration)
	})
}

// whole waits until it is ready and each server says that all slots are served and none is open, and that it hears all others.
func (r *redisCluster) whole(shards int) {
	r.Helper()
	r.eventually(readyIn, fmt.Sprintf("the cluster is whole with %d shards", shards), func() error {
		cluster := r.object()
		if err := readyNow(cluster, cluster.Status.ObservedGeneration); err != nil {
			return err
		}
		if want := fmt.Sprintf("%[1]d/%[1]d", shards); cluster.Status.Shards != want || len(cluster.Status.Members) != 2*shards {
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
}

// wholeFor is what one server says.
func (r *redisCluster) wholeFor(pod string, members int) error {
	ctx, cancel := context.WithTimeout(r.ctx, answerIn)
	defer cancel()
	to := r.at(pod)
	info, err := to.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for field, want := range map[string]string{"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(allSlots), "cluster_known_nodes": strconv.Itoa(members)} {
		if got := infoField(info, field); got != want {
			return fmt.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	nodes, err := to.ClusterNodes(ctx).Result()
	if err == nil && (strings.Contains(nodes, "[") || strings.Contains(nodes, "fail") || strings.Contains(nodes, "disconnected")) {
		err = errors.New(nodes)
	}
	return err
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

// ids are what the servers call themselves.
func (r *redisCluster) ids() map[string]string {
	r.Helper()
	ids := map[string]string{}
	for _, pod := range r.pods() {
		id, err := r.at(pod.Name).ClusterMyID(r.ctx).Result()
		if err != nil {
			r.Fatal(err)
		}
		ids[pod.Name] = id
	}
	return ids
}

// primary of a shard, as the status says.
func (r *redisCluster) primary(shard string) string {
	r.Helper()
	var found string
	r.eventually(settleIn, "shard "+shard+" has a primary", func() error {
		found = ""
		for _, m := range r.object().Status.Members {
			if m.Shard == shard && m.Role == "primary" {
				found += m.Name
			}
		}
		if found == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return found
}

// succeeded waits until another pod is the primary of a shard.
func (r *redisCluster) succeeded(shard, before string) {
	r.Helper()
	took := r.eventually(settleIn, "another pod than "+before+" is the primary of its shard", func() error {
		if now := r.primary(shard); now == before {
			return fmt.Errorf("it still is %s", now)
		}
		return nil
	})
	r.Logf("the status names another primary after %s", seconds(took))
}

func (r *redisCluster) signal(pod, signal string, seconds int) {
	r.Helper()
	redisReplicated.signal(r.space, pod, signal, seconds)
}

func (r *redisCluster) deletePods(names ...string) {
	r.Helper()
	for _, name := range names {
		r.delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.space.name, Name: name}}, graceZero)
	}
}

// way is the local address of a pod's server.
func (r *redisCluster) way(pod string) string { return r.ways.to(pod, 6379) }

// at is a client of one server.
func (r *redisCluster) at(pod string) *redis.Client {
	r.Helper()
	a := r.accountIn(r.object().Status.BindingName)
	c := redis.NewClient(&redis.Options{Addr: r.way(pod), Password: a.password, DialTimeout: answerIn, ReadTimeout: answerIn, MaxRetries: 1, Protocol: 2, DisableIdentity: true})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// client for Redis Cluster, which reaches servers where they say that they are.
func (r *redisCluster) client() *redis.ClusterClient {
	r.Helper()
	a := r.accountIn(r.object().Status.BindingName)
	c := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"any:0", "any:1", "any:2"}, Password: a.password, Protocol: 2, DisableIdentity: true,
		DialTimeout: answerIn, ReadTimeout: answerIn, MaxRedirects: 8, DialerRetries: 1,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			pod, err := r.podAt(ctx, address)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, r.way(pod))
		},
	})
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// podAt is the pod with an address, or one of them all.
func (r *redisCluster) podAt(ctx context.Context, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	var list corev1.PodList
	if err := world.client.List(ctx, &list, client.InNamespace(r.space.name), client.MatchingLabels{platformv1.ApplicationLabel: r.application()}); err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(port)
	for i, pod := range list.Items {
		if pod.DeletionTimestamp == nil && (pod.Status.PodIP == host || host == "any" && i == n) {
			return pod.Name, nil
		}
	}
	return "", fmt.Errorf("no pod has the address %s: %w", address, io.ErrUnexpectedEOF)
}

// clusterLoad are clients that write, and what was acknowledged with a replica.
type clusterLoad struct {
	*redisCluster
	client *redis.ClusterClient
	stop   context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	// times of the acknowledged writes of each client.
	times [clients][]time.Time
}

// load begins to write and returns when each client has.
func (r *redisCluster) load() *clusterLoad {
	r.Helper()
	ctx, stop := context.WithCancel(r.ctx)
	l := &clusterLoad{redisCluster: r, client: r.client(), stop: stop}
	for i := range clients {
		l.all.Go(func() { l.write(ctx, i) })
	}
	r.eventually(settleIn, "each client has written", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range clients {
			if len(l.times[i]) < 3 {
				return fmt.Errorf("client %d has %d times", i, len(l.times[i]))
			}
		}
		return nil
	})
	return l
}

// key of a write: each goes to another slot.
func (l *clusterLoad) key(client, number int) string {
	return fmt.Sprintf("%s:%d:%d", l.Name(), client, number)
}

// write writes the next key until it is acknowledged with a replica, again and again.
func (l *clusterLoad) write(ctx context.Context, client int) {
	for number := 0; ctx.Err() == nil; {
		if l.put(ctx, l.key(client, number)) != nil {
			// A transaction, other than a command, does not have the client ask another server when its own is gone.
			l.client.ReloadState(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		l.mu.Lock()
		l.times[client] = append(l.times[client], time.Now())
		l.mu.Unlock()
		number++
	}
}

// put writes a key and waits, on the same connection, until a replica has it.
func (l *clusterLoad) put(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return l.client.Watch(ctx, func(tx *redis.Tx) error {
		if err := tx.Set(ctx, key, key, 0).Err(); err != nil {
			return err
		}
		replicas, err := tx.Wait(ctx, 1, answerIn/2).Result()
		if err == nil && replicas < 1 {
			err = errors.New("no replica has it")
		}
		return err
	}, key)
}

// judge ends the writing, reads all back, and says what the fault has cost.
func (l *clusterLoad) judge(f clusterFault) {
	l.Helper()
	over := time.Now()
	l.eventually(settleIn, "each client writes after all", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, times := range l.times {
			if !times[len(times)-1].After(over) {
				return fmt.Errorf("client %d does not", i)
			}
		}
		return nil
	})
	l.stop()
	l.all.Wait()
	var v verdict
	for i, times := range l.times {
		v.acknowledged += len(times)
		v.gap = max(v.gap, longestGap(times))
		v.lost += l.lost(i, len(times))
	}
	v.vacancy = v.gap
	faults.add(f.name, v)
	v.hold(l.T, f.name, f.limit)
}

// lost counts the writes of a client that cannot be read back.
func (l *clusterLoad) lost(client, count int) int {
	l.Helper()
	lost := 0
	for start := 0; start < count; start += readBack {
		end := min(start+readBack, count)
		answers, err := l.client.Pipelined(l.ctx, func(p redis.Pipeliner) error {
			for number := start; number < end; number++ {
				p.Get(l.ctx, l.key(client, number))
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			l.Fatal(err)
		}
		for i, answer := range answers {
			if answer.(*redis.StringCmd).Val() != l.key(client, start+i) {
				lost++
			}
		}
	}
	return lost
}
