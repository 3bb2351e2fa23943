// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestRedisCluster takes a Redis Cluster through its life under the load of a real client for Redis Cluster: no write is lost that a replica
// had, every slot is served again after each fault, and no pod goes before it has given its slots away. It runs alone because it measures.
func TestRedisCluster(t *testing.T) {
	s := newSpace(t, "rediscluster")
	r := s.redisCluster("shop")
	took := r.ready()
	r.whole(3)
	t.Logf("3 shards of 2 pods are ready after %s: %v", seconds(took), r.columns(databasev1.GroupVersion.WithResource("redisclusters"), r.name))
	r.wantColumns(databasev1.GroupVersion.WithResource("redisclusters"), r.name, "Version", "Shards", "Pods", "Endpoint")
	for _, fault := range clusterFaults() {
		t.Run(fault.name, func(t *testing.T) {
			r := r.in(t)
			load := r.load()
			fault.does(r)
			r.whole(fault.shards)
			load.judge(fault)
		})
	}
	r.idle()
}

// clusterFault is one thing that is done to a Redis Cluster, how many shards it has then, and the gap of one client at which its test fails.
type clusterFault struct {
	fault
	shards int
	does   func(r *redisCluster)
}

func clusterFaults() []clusterFault {
	scale := func(shards int32) func(*redisCluster) {
		return func(r *redisCluster) { r.reshape(func(spec *databasev1.RedisClusterSpec) { spec.Shards = shards }) }
	}
	return []clusterFault{
		{fault{name: "cluster: process killed", limit: failoverGap}, 3, func(r *redisCluster) { r.signal(r.primary("0"), "KILL", 0) }},
		{fault{name: "cluster: process stopped", limit: failoverGap}, 3, func(r *redisCluster) {
			before := r.primary("0")
			r.signal(before, "STOP", 0)
			r.succeeded("0", before)
			// It goes on where it stopped, and has to find out that it is the primary no more.
			r.signal(before, "CONT", 0)
		}},
		{fault{name: "cluster: pod deleted", limit: failoverGap}, 3, func(r *redisCluster) {
			// Whether it is back before a replica takes over is for the node to say.
			before, uids := r.primary("1"), r.uids()
			r.deletePods(before)
			r.eventually(settleIn, "there is another pod", func() error {
				if now, is := r.uids()[before]; !is || now == uids[before] {
					return fmt.Errorf("it is %q, and was %q", now, uids[before])
				}
				return nil
			})
		}},
		{fault{name: "cluster: pod and volume deleted", limit: failoverGap}, 3, func(r *redisCluster) {
			before := r.primary("2")
			id := r.ids()[before]
			claim := &corev1.PersistentVolumeClaim{}
			r.mustGet(platformv1.ClaimNameFor("data", before), claim)
			r.delete(claim)
			r.deletePods(before)
			r.succeeded("2", before)
			r.whole(3)
			if r.ids()[before] == id {
				r.Errorf("pod %s has the node id %s as before: its volume was not lost", before, id)
			}
		}},
		{fault{name: "cluster: all pods deleted", limit: expiryGap}, 3, func(r *redisCluster) {
			before := r.ids()
			r.deletePods(slices.Collect(maps.Keys(before))...)
			r.whole(3)
			if after := r.ids(); !maps.Equal(before, after) {
				r.Errorf("the nodes were %v, and are %v", before, after)
			}
		}},
		{fault{name: "cluster: a shard more", limit: failoverGap}, 4, scale(4)},
		{fault{name: "cluster: a shard less", limit: failoverGap}, 3, scale(3)},
		{fault{name: "cluster: processes restarted", limit: failoverGap}, 3, func(r *redisCluster) {
			uids := r.uids()
			r.reshape(func(spec *databasev1.RedisClusterSpec) { spec.Parameters = platformv1.Parameters{"hz": "20"} })
			r.whole(3)
			if !maps.Equal(uids, r.uids()) {
				r.Error("pods were replaced: a parameter restarts processes in place")
			}
			for pod := range uids {
				if got := r.at(pod).ConfigGet(r.ctx, "hz").Val()["hz"]; got != "20" {
					r.Errorf("pod %s has hz %q", pod, got)
				}
			}
		}},
	}
}

// reshape changes the spec, and waits until the cluster is as asked and that is on record.
func (r *redisCluster) reshape(change func(*databasev1.RedisClusterSpec)) {
	r.Helper()
	r.update(change)
	told := map[string]bool{}
	r.eventually(2*readyIn, "the cluster is as asked", func() error {
		cluster := r.object()
		err := readyNow(cluster, cluster.Status.ObservedGeneration)
		if err != nil {
			told[err.Error()] = true
		}
		return err
	})
	for _, text := range slices.Sorted(maps.Keys(told)) {
		r.Log(text)
	}
	r.eventually(settleIn, "the change is on record", func() error {
		var list platformv1.OperationList
		if err := world.client.List(r.ctx, &list, client.InNamespace(r.space.name)); err != nil {
			return err
		}
		var phases []string
		for _, op := range list.Items {
			if op.Spec.TemplateRef == "Apply" {
				phases = append(phases, string(op.Status.Phase))
			}
		}
		if len(phases) == 0 || slices.ContainsFunc(phases, func(p string) bool { return p != string(platformv1.OperationSucceeded) }) {
			return fmt.Errorf("the records are %s", strings.Join(phases, ", "))
		}
		return nil
	})
}

// idle checks that a cluster at rest costs the API server nothing.
func (r *redisCluster) idle() {
	r.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		component := &platformv1.Component{}
		r.mustGet(r.application()+"-node", component)
		all[component.Name] = component.ResourceVersion
		for _, pod := range r.pods() {
			all[pod.Name] = pod.ResourceVersion
		}
		return all
	}
	before := versions()
	r.throughout(quiet, "nothing is written of a cluster at rest", func() error {
		if after := versions(); !maps.Equal(before, after) {
			return fmt.Errorf("it was %v, and is %v", before, after)
		}
		return nil
	})
}
