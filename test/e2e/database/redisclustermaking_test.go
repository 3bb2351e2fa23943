// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// makings is how often each is made.
	makings = 3
	// makingBudget is how many times as long as bare pods a cluster may take from apply to Ready, and makingLimit what no
	// busy machine explains.
	makingBudget, makingLimit = 1.5, 4.0
)

// TestRedisClusterIsMadeInTime makes a RedisCluster of six pods, and a StatefulSet of six such pods that know nothing
// of each other, in turn. It runs alone because it measures.
func TestRedisClusterIsMadeInTime(t *testing.T) {
	s := framework.NewNamespace(t, "making")
	var ours, bare []time.Duration
	for n := range makings {
		bare = append(bare, makesBare(s, fmt.Sprintf("bare%d", n)))
		begun := time.Now()
		r := createRedisCluster(s, fmt.Sprintf("shop%d", n))
		r.ready()
		ours = append(ours, time.Since(begun))
		cluster := r.object()
		if cluster.Status.Shards != "3/3" {
			t.Errorf("it is ready with %s shards", cluster.Status.Shards)
		}
		s.Delete(cluster, client.PropagationPolicy(metav1.DeletePropagationForeground))
		emptied(s)
	}
	slices.Sort(ours)
	slices.Sort(bare)
	ratio := ours[makings/2].Seconds() / bare[makings/2].Seconds()
	t.Logf("apply to Ready of six pods: RedisCluster %v, StatefulSet %v: %.2f times as long (budget %.1f)", ours, bare,
		ratio, makingBudget)
	limit := makingLimit
	if framework.Config.HoldBudgets {
		limit = makingBudget
	}
	if ratio > limit {
		t.Errorf("a RedisCluster takes %.2f times as long as a StatefulSet, want at most %.1f", ratio, limit)
	}
}

// makesBare makes a StatefulSet of six Redis processes, and removes it once they are ready. It returns how long they
// took.
func makesBare(s *framework.Namespace, name string) time.Duration {
	s.Helper()
	begun := time.Now()
	set := createBareSet(s, name, 6, redisPort, "redis-server", "--dir", "/data", "--cluster-enabled", "yes",
		"--appendonly", "yes", "--protected-mode", "no")
	set.ready()
	took := time.Since(begun)
	s.Delete(&appsv1.StatefulSet{ObjectMeta: framework.ObjectMeta(name)},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	emptied(s)
	return took
}

// emptied waits until no pod is left.
func emptied(s *framework.Namespace) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "all pods are gone", func() error {
		var pods corev1.PodList
		if err := framework.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Name)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
}
