// SPDX-License-Identifier: Apache-2.0

package database

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestRedisClusterLife changes a Redis Cluster that is written to in each of the ways that a running one can be
// changed, and sees what became of its processes; then it is stopped and started, and has all that it had.
func TestRedisClusterLife(t *testing.T) {
	s := framework.NewNamespace(t, "clusterlife")
	r := createRedisCluster(s, "shop")
	r.ready()
	r.whole(3)
	r.putKept()
	sum, slots := r.sumKept(), r.slots()
	for _, step := range []struct {
		name   string
		does   func(*redisCluster)
		effect framework.Effect
	}{
		{"parameters that a server takes over", func(r *redisCluster) {
			r.update(func(spec *databasev1.RedisClusterSpec) {
				spec.Parameters = platformv1.Parameters{"slowlog-max-len": "64"}
				spec.MaxmemoryPolicy = "volatile-ttl"
			})
		}, reloaded},
		{"parameters that only a start changes", func(r *redisCluster) {
			r.update(func(spec *databasev1.RedisClusterSpec) {
				spec.Parameters = platformv1.Parameters{"slowlog-max-len": "64", "tcp-backlog": "400"}
			})
		}, inPlace},
		{"resources", func(r *redisCluster) {
			r.update(func(spec *databasev1.RedisClusterSpec) {
				spec.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("30m")
				spec.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("160Mi")
			})
		}, untouched},
		{"storage", func(r *redisCluster) {
			r.update(func(spec *databasev1.RedisClusterSpec) { spec.Storage.Size = resource.MustParse("96Mi") })
		}, untouched},
		{"an Operation Restart", func(r *redisCluster) {
			r.Create(framework.NewOperation("restart", "Restart", r.reference()))
			r.WaitForOperation("restart")
		}, inPlace},
		{"an Operation Reload", func(r *redisCluster) {
			r.Create(framework.NewOperation("reload", "Reload", r.reference()))
			r.WaitForOperation("reload")
		}, reloaded},
		{"Operations Failover of a shard", func(r *redisCluster) { r.failsOver() }, untouched},
	} {
		t.Run(step.name, func(t *testing.T) { r.in(t).goesThrough(step.name, step.does, step.effect) })
	}
	r.tookOver()
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Running = new(false) })
	(&framework.Application{Namespace: r.Namespace, Name: r.application()}).WaitForPods()
	r.update(func(spec *databasev1.RedisClusterSpec) { spec.Running = new(true) })
	r.whole(3)
	if got := r.sumKept(); got != sum || !maps.Equal(r.slots(), slots) {
		t.Errorf("after it was stopped it has the sum %s and the slots %v, and had %s and %v", got, r.slots(), sum, slots)
	}
}

// goesThrough a change under load: pods stay, and processes stay or are all new.
func (r *redisCluster) goesThrough(name string, does func(*redisCluster), want framework.Effect) {
	r.Helper()
	uids, runs, load := r.uids(), r.said("server", "run_id"), r.load()
	does(r)
	r.ready()
	r.whole(3)
	load.judge(clusterFault{Fault: framework.Fault{Name: "cluster: " + name, Limit: writersGap}})
	if now := r.uids(); !maps.Equal(now, uids) {
		r.Errorf("its pods are %v, and were %v", now, uids)
	}
	now := r.said("server", "run_id")
	for pod, run := range runs {
		if restarted := now[pod] != run; restarted != (want == inPlace) {
			r.Errorf("%s was expected, and the process of %s was %s and is %s", want, pod, run, now[pod])
		}
	}
}

// failsOver has a replica take over from its primary by the command of Redis Cluster: the best one of a shard, and one
// that is named.
func (r *redisCluster) failsOver() {
	r.Helper()
	before := r.primary("0")
	set := platformv1.WorkloadSetNameFor(r.application(), "node", "0")
	r.Create(framework.NewOperation("failover-best", "Failover", framework.CoreReference("WorkloadSet", set)))
	r.WaitForOperation("failover-best")
	r.succeeded("0", before)
	r.Create(framework.NewOperation("failover-named", "Failover", r.reference(), "to", before))
	r.WaitForOperation("failover-named")
	if now := r.primary("0"); now != before {
		r.Errorf("%s is the primary, and %s was to be", now, before)
	}
	r.ExpectOperationRefused(framework.NewOperation("failover-unnamed", "Failover", r.reference()),
		"name the replica that takes over in parameter 'to'")
	r.ExpectOperationRefused(framework.NewOperation("failover-itself", "Failover", r.reference(), "to", before),
		"is a primary already")
}

// tookOver reads back what was changed from each server and volume.
func (r *redisCluster) tookOver() {
	r.Helper()
	for _, pod := range r.pods() {
		for name, want := range map[string]string{"slowlog-max-len": "64", "maxmemory-policy": "volatile-ttl",
			"tcp-backlog": "400"} {
			if got := r.config(pod.Name, name); got != want {
				r.Errorf("%s has %s %q, want %q", pod.Name, name, got, want)
			}
		}
		i := slices.IndexFunc(pod.Status.ContainerStatuses,
			func(c corev1.ContainerStatus) bool { return c.Name == framework.RedisComponent })
		if i < 0 || pod.Status.ContainerStatuses[i].Resources == nil {
			r.Errorf("%s says nothing of its resources: %+v", pod.Name, pod.Status.ContainerStatuses)
		} else if has := pod.Status.ContainerStatuses[i].Resources; has.Limits.Memory().String() != "160Mi" ||
			has.Requests.Cpu().String() != "30m" {
			r.Errorf("%s has the resources %+v", pod.Name, has)
		}
	}
	claims := (&framework.Application{Namespace: r.Namespace, Name: r.application()}).Claims()
	for name, claim := range claims {
		if got := claim.Status.Capacity.Storage(); got.Cmp(resource.MustParse("96Mi")) < 0 {
			r.Errorf("%s has a capacity of %s", name, got)
		}
	}
	if len(claims) != 6 {
		r.Errorf("there are %d volumes", len(claims))
	}
}
