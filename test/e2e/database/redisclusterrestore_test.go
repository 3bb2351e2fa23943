// SPDX-License-Identifier: Apache-2.0

package database

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// clusterKept are how many keys are compared: some in each hundred slots.
	clusterKept = 5000
	// writersGap is how long a client may have no write acknowledged while a backup is taken.
	writersGap = 10 * time.Second
)

// TestRedisClusterRestore backs a Redis Cluster up under load, and makes others that begin with that: all keys are
// there, in the slots of the same shards.
func TestRedisClusterRestore(t *testing.T) {
	s := framework.NewNamespace(t, "clusterrestore")
	r := createRedisCluster(s, "shop")
	r.ready()
	r.whole(3)
	s.CreateRepository("store", r.pods()[0].Spec.Containers[0].Image)
	r.putKept()
	sum, slots := r.sumKept(), r.slots()
	load := r.load()
	s.Create(framework.NewBackupOperation("first", "store", r.reference()))
	b := s.WaitForStoredBackup("first")
	load.judge(clusterFault{Fault: framework.Fault{Name: "a backup of a Redis Cluster", Limit: writersGap}})
	r.checkSources(b, slots)
	t.Run("into another", func(t *testing.T) { r.in(t).checkRestored("copy", sum, slots) })
	t.Run("whose mover is killed", func(t *testing.T) { r.in(t).checkMoverKilled(sum, slots) })
	t.Run("that cannot be", func(t *testing.T) { r.in(t).checkRefused() })
	t.Run("beside which shards come", func(t *testing.T) { r.in(t).checkReshard(sum) })
}

// keptKey is one that is compared.
func keptKey(n int) string { return fmt.Sprint("kept:", n) }

// putKept writes the keys that are compared.
func (r *redisCluster) putKept() {
	r.Helper()
	c := r.client()
	for start := 0; start < clusterKept; start += framework.ReadBackScript {
		_, err := c.Pipelined(r.Ctx, func(p redis.Pipeliner) error {
			for n := start; n < min(start+framework.ReadBackScript, clusterKept); n++ {
				p.Set(r.Ctx, keptKey(n), strings.Repeat(fmt.Sprint(n), 10), 0)
			}
			return nil
		})
		if err != nil {
			r.Fatalf("cannot write to RedisCluster %q: %v", r.name, err)
		}
	}
}

// sumKept says whether the keys are the same.
func (r *redisCluster) sumKept() string {
	r.Helper()
	c, sum := r.client(), sha256.New()
	for start := 0; start < clusterKept; start += framework.ReadBackScript {
		answers, err := c.Pipelined(r.Ctx, func(p redis.Pipeliner) error {
			for n := start; n < min(start+framework.ReadBackScript, clusterKept); n++ {
				p.Get(r.Ctx, keptKey(n))
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			r.Fatalf("cannot read from RedisCluster %q: %v", r.name, err)
		}
		for _, answer := range answers {
			fmt.Fprintln(sum, answer.(*redis.StringCmd).Val())
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// slots of each shard, as its primary tells.
func (r *redisCluster) slots() map[string]string {
	r.Helper()
	slots := map[string]string{}
	for shard := range int(r.object().Spec.Shards) {
		name := fmt.Sprint(shard)
		nodes, err := r.at(r.primary(name)).ClusterNodes(r.Ctx).Result()
		if err != nil {
			r.Fatal(err)
		}
		for line := range strings.Lines(nodes) {
			if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "myself") {
				slots[name] = strings.Join(words[8:], " ")
			}
		}
	}
	return slots
}

// checkSources: each shard was taken from a replica of it, and the Backup says which slots it had.
func (r *redisCluster) checkSources(b *platformv1.Backup, slots map[string]string) {
	r.Helper()
	if len(b.Status.Sources) != 3 || b.Status.Source != nil || strings.Count(b.Status.SourcePods, ", ") != 2 {
		r.Fatalf("it was taken from %+v, %+v", b.Status.Source, b.Status.Sources)
	}
	for _, source := range b.Status.Sources {
		if source.Role != "replica" || source.RawSize == 0 || b.Status.Facts["slots."+source.Set] != slots[source.Set] {
			r.Errorf("shard %s was taken from %+v, with the slots %q; it has %q", source.Set, source,
				b.Status.Facts["slots."+source.Set], slots[source.Set])
		}
	}
	if files, found := r.BackupInRepository(b.Status.Key); !found || strings.Count(files, "data-") != 3 {
		r.Errorf("in the repository is %s", files)
	}
}

// begun creates a RedisCluster that begins with a Backup.
func (r *redisCluster) begun(name, backup string, changes ...func(*databasev1.RedisClusterSpec)) *redisCluster {
	r.Helper()
	from := func(spec *databasev1.RedisClusterSpec) {
		spec.RestoreFrom = &platformv1.RestoreFrom{Backup: backup}
	}
	return createRedisCluster(r.Namespace, name, append(changes, from)...)
}

// has waits until a cluster is whole, and sees that it has the keys and the slots, and says where from.
func (r *redisCluster) has(backup, sum string, slots map[string]string) {
	r.Helper()
	r.ready()
	r.whole(3)
	if got := r.sumKept(); got != sum {
		r.Errorf("RedisCluster %q has the sum %s, want %s", r.name, got, sum)
	}
	if got := r.slots(); !maps.Equal(got, slots) {
		r.Errorf("RedisCluster %q has the slots %v, want %v", r.name, got, slots)
	}
	if c := meta.FindStatusCondition(r.object().Status.Conditions, platformv1.RestoredCondition); c == nil ||
		c.Reason != platformv1.ReasonRestored {
		r.Errorf("it says %s", framework.Describe(r.object().Status.Conditions))
	}
	app := &platformv1.Application{}
	r.MustGet(r.application(), app)
	if from := app.Status.RestoredFrom; from == nil || from.Backup != backup || from.Size == 0 {
		r.Errorf("its Application began with %+v", from)
	}
}

// checkRestored: another cluster has all, also after it was used as any other is: a pod that is gone, and a shard more,
// which begins without the data.
func (r *redisCluster) checkRestored(name, sum string, slots map[string]string) {
	other := r.begun(name, "first-backup")
	other.has("first-backup", sum, slots)
	if r.account().Password == other.account().Password {
		r.Error("a restored cluster has the password of the one before")
	}
	other.deletePods(other.primary("1"))
	other.whole(3)
	other.update(func(spec *databasev1.RedisClusterSpec) { spec.Shards = 4 })
	other.whole(4)
	if got := other.sumKept(); got != sum {
		r.Errorf("with a shard more RedisCluster %q has the sum %s, want %s", name, got, sum)
	}
	if got := r.sumKept(); got != sum {
		r.Errorf("the source has the sum %s, and had %s", got, sum)
	}
	// The next ones need the room.
	r.Delete(other.object())
}

// checkMoverKilled: the next mover begins anew, and all shards have their data.
func (r *redisCluster) checkMoverKilled(sum string, slots map[string]string) {
	late := r.begun("late", "first-backup")
	b := &platformv1.Backup{}
	r.MustGet("first-backup", b)
	var killed *corev1.Pod
	r.Eventually(framework.SettleTimeout, "a mover is there", func() error {
		var pods corev1.PodList
		if err := r.List(&pods, client.MatchingLabels{platformv1.BackupLabel: string(b.UID),
			platformv1.ApplicationLabel: late.application()}); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("there is none; the cluster says %s", framework.Describe(late.object().Status.Conditions))
		}
		killed = &pods.Items[0]
		return nil
	})
	r.Delete(killed, framework.GraceZero)
	late.has("first-backup", sum, slots)
	r.Delete(late.object())
}

// checkRefused: another number of shards is said at once, and so is a Backup of a cluster for a server alone.
func (r *redisCluster) checkRefused() {
	says := func(reason, text string, object func() []string) {
		r.Helper()
		r.Eventually(framework.ErrorTimeout, "it says "+reason, func() error {
			if said := object(); !slices.ContainsFunc(said,
				func(one string) bool { return strings.Contains(one, reason) && strings.Contains(one, text) }) {
				return fmt.Errorf("it says %v", said)
			}
			return nil
		})
	}
	wide := &redisCluster{Namespace: r.Namespace, name: "wide", ways: r.ways}
	object := &databasev1.RedisCluster{ObjectMeta: framework.ObjectMeta("wide"), Spec: r.object().Spec}
	object.Spec.Shards, object.Spec.RestoreFrom = 4, &platformv1.RestoreFrom{Backup: "first-backup"}
	const number = `it has the data of 3 sets, and component "node" is to have 4: ask for 3`
	if err := r.TryCreate(object); err == nil {
		says(platformv1.ReasonRestoreRefused, number,
			func() []string { return []string{framework.Describe(wide.object().Status.Conditions)} })
	} else if !strings.Contains(err.Error(), number) {
		r.Errorf("another number of shards: %v", err)
	}
	alone := framework.NewRedis("alone", framework.WithRestoreFrom("first-backup"))
	if err := r.TryCreate(alone); err == nil {
		says(platformv1.ReasonRestoreRefused, "its data is in 3 parts", func() []string {
			return []string{framework.Describe(
				(&framework.Instance{Namespace: r.Namespace, Name: "alone"}).Object().Status.Conditions)}
		})
	} else if !strings.Contains(err.Error(), "its data is in 3 parts") {
		r.Errorf("a server alone: %v", err)
	}
}

// checkReshard: slots wait for the backup that takes their keys, and both come to their end.
func (r *redisCluster) checkReshard(sum string) {
	r.Create(framework.NewBackupOperation("second", "store", r.reference()))
	r.Eventually(framework.SettleTimeout, "the data is being taken", func() error {
		b := &platformv1.Backup{}
		if err := r.Get("second-backup", b); err != nil {
			return err
		}
		if b.Status.Phase != platformv1.BackupRunning && !b.Ended() {
			return fmt.Errorf("it is %s: %s", b.Status.Phase, b.Status.Message)
		}
		return nil
	})
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Shards = 4 })
	r.whole(4)
	if b := r.Namespace.WaitForStoredBackup("second"); len(b.Status.Sources) != 3 {
		r.Errorf("it was taken from %+v", b.Status.Sources)
	}
	if got := r.sumKept(); got != sum {
		r.Errorf("the cluster has the sum %s, and had %s", got, sum)
	}
}
