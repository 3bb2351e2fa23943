// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// fewShards and manyShards are those that a cluster goes between; half of all slots move each time.
	fewShards, manyShards = 3, 6
	movingSlots           = allSlots / 2
	// podStrikes and operatorStrikes are how often pods and the operator are killed on each way.
	podStrikes, operatorStrikes = 5, 2
	// struckGap is what a client may have to wait for at most where all of that may meet in one shard.
	struckGap = 2 * expiryGap
)

// expectedAnswers are what clients for Redis Cluster know how to deal with: a slot or a primary is elsewhere, or not
// there for the moment.
var expectedAnswers = []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY",
	"UNBLOCKED", "ERR WAIT cannot be used with replica instances"}

// TestRedisClusterTo6AndBack has a Redis Cluster go from three shards to six and back under load, while its pods and
// the operator are killed again and again, after so many slots as a seed says. It runs alone because it measures and
// kills the operator.
func TestRedisClusterTo6AndBack(t *testing.T) {
	s := framework.NewNamespace(t, "sixandback")
	// A spare replica, so that another one leads when the Lease is over.
	s.RestoreOperatorAtEnd()
	s.MustInstall(framework.OperatorName, "replicas=2")
	t.Logf("to have it all once more: E2E_SEED=%d", framework.Config.Seed)
	random := rand.New(rand.NewPCG(framework.Config.Seed, 0))
	r := createRedisCluster(s, "shop")
	r.ready()
	r.whole(fewShards)
	ids := r.ids()
	for range framework.Config.FaultRounds {
		for _, way := range []struct {
			name   string
			shards int32
		}{
			{"cluster: 3 to 6 shards, pods and operator killed", manyShards},
			{"cluster: 6 to 3 shards, pods and operator killed", fewShards},
		} {
			fault := clusterFault{framework.Fault{Name: way.name, Limit: struckGap}, int(way.shards),
				func(r *redisCluster) { r.struckOnTheWay(way.shards, random) }}
			if !t.Run(fault.Name, func(t *testing.T) {
				r := r.in(t)
				load := r.load()
				fault.does(r)
				r.whole(fault.shards)
				r.agree()
				load.judge(fault)
				load.metOnlyExpected()
				now := r.ids()
				for pod, id := range ids {
					if now[pod] != id {
						t.Errorf("pod %s was node %s and is node %s", pod, id, now[pod])
					}
				}
			}) {
				return
			}
		}
	}
}

// strike is one kill, and how many slots have moved before it.
type strike struct {
	after int
	what  string
	does  func(r *redisCluster)
}

// strikes of one way, in order.
func strikes(random *rand.Rand) []strike {
	// The last of them are early enough to find the cluster at work.
	after := func() int { return 1 + random.IntN(movingSlots*7/8) }
	all := make([]strike, 0, podStrikes+operatorStrikes)
	for range podStrikes {
		shard, ordinal, how := random.IntN(manyShards), random.IntN(2), random.IntN(2)
		what := []string{"kill -9 of the process of", "forced deletion of"}[how]
		does := []func(*redisCluster, *corev1.Pod) error{(*redisCluster).endProcess, (*redisCluster).endPod}[how]
		all = append(all, strike{after(), fmt.Sprintf("%s pod %d of shard %d", what, ordinal, shard),
			func(r *redisCluster) { r.struck(shard, ordinal, does) }})
	}
	for range operatorStrikes {
		all = append(all, strike{after(), "kill -9 of the operator", func(r *redisCluster) {
			r.MustLeader()
			r.PrepareOperatorKill()()
		}})
	}
	slices.SortStableFunc(all, func(a, b strike) int { return a.after - b.after })
	return all
}

// struckOnTheWay has the cluster get so many shards, while all strikes fall, and waits until the change is on record as
// one that succeeded.
func (r *redisCluster) struckOnTheWay(shards int32, random *rand.Rand) {
	r.Helper()
	before := r.applied()
	begun := time.Now()
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Shards = shards })
	v := r.viewers()
	for _, strike := range strikes(random) {
		moved := 0
		r.Eventually(2*framework.ReadyTimeout, fmt.Sprintf("%d slots have moved", strike.after), func() (err error) {
			if moved, err = v.moved(shards); err == nil && moved < strike.after {
				err = fmt.Errorf("%d have", moved)
			}
			return err
		})
		r.Logf("after %s and %d slots (%d): %s", framework.FormatSeconds(time.Since(begun)), moved, strike.after, strike.what)
		strike.does(r)
	}
	r.reshaped(before)
	r.Logf("%d shards after %s", shards, framework.FormatSeconds(time.Since(begun)))
}

// struck ends a pod of a shard in a way, once it is there and runs. When it has left meanwhile it needs no more of
// that.
func (r *redisCluster) struck(shard, ordinal int, end func(*redisCluster, *corev1.Pod) error) {
	r.Helper()
	set := platformv1.WorkloadSetNameFor(r.application(), "node", strconv.Itoa(shard))
	name := platformv1.PodNameFor(set, int32(ordinal))
	r.Eventually(framework.SettleTimeout, name+" is struck", func() error {
		pod := &corev1.Pod{}
		err := r.Get(name, pod)
		switch {
		case apierrors.IsNotFound(err) && int32(shard) >= r.object().Spec.Shards:
			return nil
		case err != nil:
			return err
		case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning:
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return end(r, pod)
	})
}

func (r *redisCluster) endPod(pod *corev1.Pod) error {
	return framework.Cluster.Client.Delete(r.Ctx, pod, framework.GraceZero, client.Preconditions{UID: &pod.UID})
}

func (r *redisCluster) endProcess(pod *corev1.Pod) error {
	_, err := framework.Run(r.Ctx, r.Namespace.Name, pod.Name, framework.RedisComponent, "", "sh", "-c",
		framework.SignalScript+"exit 0", "signal", "KILL", framework.ReplicatedRedisKind.Process)
	return err
}

// viewers are clients of the servers that stay in any case, which say where slots are.
type viewers struct {
	*redisCluster
	clients []*redis.Client
}

func (r *redisCluster) viewers() *viewers {
	r.Helper()
	v := &viewers{redisCluster: r}
	for shard := range fewShards {
		for ordinal := range int32(2) {
			v.clients = append(v.clients, r.at(
				platformv1.PodNameFor(platformv1.WorkloadSetNameFor(r.application(), "node", strconv.Itoa(shard)), ordinal)))
		}
	}
	return v
}

// moved is how many slots have on the way to so many shards, as the first server says that answers.
func (v *viewers) moved(shards int32) (int, error) {
	err := errors.New("nobody was asked")
	for _, to := range v.clients {
		var nodes string
		if nodes, err = v.nodesOf(to); err == nil {
			stay, come := v.owned(nodes)
			if shards == manyShards {
				return come, nil
			}
			return stay - movingSlots, nil
		}
	}
	return 0, err
}

func (v *viewers) nodesOf(to *redis.Client) (string, error) {
	ctx, cancel := context.WithTimeout(v.Ctx, framework.AnswerTimeout)
	defer cancel()
	return to.ClusterNodes(ctx).Result()
}

// owned is how many slots the shards have that stay, and those that come and go. Of a server that is not known by its
// name they are counted with neither.
func (v *viewers) owned(nodes string) (stay, come int) {
	for line := range strings.Lines(nodes) {
		for shard := range manyShards {
			if !strings.Contains(line, ","+platformv1.WorkloadSetNameFor(v.application(), "node", strconv.Itoa(shard))+"-") {
				continue
			}
			if shard < fewShards {
				stay += slotsIn(line)
			} else {
				come += slotsIn(line)
			}
		}
	}
	return stay, come
}

// agree waits until all servers know the same nodes, which are those of the pods and no others, and the same owner of
// each slot.
func (r *redisCluster) agree() {
	r.Helper()
	want := slices.Sorted(maps.Values(r.ids()))
	r.Eventually(framework.SettleTimeout, "all servers agree", func() error {
		var first map[string]string
		for _, pod := range r.pods() {
			nodes, err := r.at(pod.Name).ClusterNodes(r.Ctx).Result()
			if err != nil {
				return err
			}
			owned := map[string]string{}
			for line := range strings.Lines(nodes) {
				if fields := strings.Fields(line); len(fields) >= 8 {
					owned[fields[0]] = strings.Join(fields[8:], " ")
				}
			}
			if known := slices.Sorted(maps.Keys(owned)); !slices.Equal(known, want) {
				return fmt.Errorf("%s knows the nodes %v, and the pods are %v", pod.Name, known, want)
			}
			if first == nil {
				first = owned
			}
			if !maps.Equal(first, owned) {
				return fmt.Errorf("%s says that slots are %v, and another server %v", pod.Name, owned, first)
			}
		}
		return nil
	})
}

// metOnlyExpected has the test fail where servers answered clients with what these cannot be expected to deal with.
// Connections may break: servers are killed.
func (l *clusterLoad) metOnlyExpected() {
	l.Helper()
	l.Logf("writes that were tried again, by the answer: %v", l.met)
	for answer, times := range l.met {
		if answer != "" && !slices.ContainsFunc(expectedAnswers,
			func(expected string) bool { return strings.HasPrefix(answer, expected) }) {
			l.Errorf("servers answered %d times with %s", times, answer)
		}
	}
}
