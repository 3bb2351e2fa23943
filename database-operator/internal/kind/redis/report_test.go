// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// alone is an Application that runs.
func alone() *platformv1.Application {
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-cache"},
		Status: platformv1.ApplicationStatus{
			Version: "7.0.15",
			Ready:   "1/1",
			Primary: "redis-cache-redis-main-0",
			Endpoints: []platformv1.Endpoint{{Name: "redis-cache", Host: "redis-cache.shop.svc.cluster.local", Port: 6379,
				Role: "primary"}},
			Binding:   &platformv1.Binding{Name: "redis-cache-binding"},
			Schedules: []platformv1.ScheduleStatus{{Name: "nightly"}},
		},
	}
}

func TestReport(t *testing.T) {
	app := alone()
	replicated := app.DeepCopy()
	replicated.Spec.Topology = "replication"
	replicated.Status.Ready, replicated.Status.Term, replicated.Status.Durability = "2/3", 7,
		platformv1.DurabilityAsynchronous
	replicated.Status.Endpoints = append(replicated.Status.Endpoints,
		platformv1.Endpoint{Name: "redis-cache-replica", Host: "redis-cache-replica.shop.svc", Port: 6379, Role: "replica"})
	changes := []platformv1.PrimaryChange{{Term: 6, Cause: platformv1.PrimaryOrdered, To: "redis-cache-redis-main-1"},
		{Term: 7, Cause: platformv1.PrimaryFailed, From: "redis-cache-redis-main-1"}}
	replicated.Status.Components = []platformv1.ComponentState{
		{Name: "redis", Replicas: 3, Sets: []platformv1.SetState{{Name: "main", Term: 7, Changes: changes}},
			Pods: []platformv1.PodState{
				{Name: "redis-cache-redis-main-0", Role: "primary", Health: "Healthy"},
				{Name: "redis-cache-redis-main-1", Role: "replica", Health: "Healthy"},
				{Name: "redis-cache-redis-main-2", Role: "replica", Health: "Unhealthy"},
				{Name: "redis-cache-redis-main-3", Health: "Starting"},
			}}}
	bounded := replicated.DeepCopy()
	bounded.Status.Durability, bounded.Status.LossWindowSeconds = platformv1.DurabilitySynchronous, new(int64(0))
	watched := replicated.DeepCopy()
	watched.Status.Components[0].Sets = nil
	watched.Spec.Topology, watched.Status.Term, watched.Status.Durability = "sentinel", 0, ""
	watched.Status.Endpoints = append(watched.Status.Endpoints,
		platformv1.Endpoint{Name: "redis-cache-sentinel", Host: "redis-cache-sentinel.shop.svc", Port: 26379})
	watched.Status.Components = append(watched.Status.Components,
		platformv1.ComponentState{Name: "sentinel", Replicas: 3, Pods: []platformv1.PodState{
			{Name: "redis-cache-sentinel-main-0", Health: "Healthy"}, {Name: "redis-cache-sentinel-main-1", Health: "Healthy"},
			{Name: "redis-cache-sentinel-main-2", Health: "Starting"},
		}})
	want := databasev1.RedisStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version: "7.0.15", Ready: "1/1", Endpoint: "redis-cache.shop.svc.cluster.local:6379",
			BindingName: "redis-cache-binding",
			Application: "redis-cache", Schedules: []platformv1.ScheduleStatus{{Name: "nightly"}},
		},
		ReplicatedStatus: databasev1.ReplicatedStatus{Primary: "redis-cache-redis-main-0"},
	}
	wantReplicated := *want.DeepCopy()
	wantReplicated.Ready, wantReplicated.Replicas, wantReplicated.Durability = "2/3", "1/2",
		platformv1.DurabilityAsynchronous
	wantReplicated.ReadOnlyEndpoint = "redis-cache-replica.shop.svc:6379"
	wantReplicated.Members = []platformv1.InstanceMember{
		{Name: "redis-cache-redis-main-0", Role: "primary"}, {Name: "redis-cache-redis-main-1", Role: "replica"},
		{Name: "redis-cache-redis-main-2", Role: "replica"},
	}
	wantWatched := *wantReplicated.DeepCopy()
	wantWatched.Sentinels, wantWatched.SentinelEndpoint = "2/3", "redis-cache-sentinel.shop.svc:26379"
	wantReplicated.Term, wantReplicated.Changes = 7, changes
	wantBounded := *wantReplicated.DeepCopy()
	wantBounded.Durability, wantBounded.LossWindowSeconds = platformv1.DurabilitySynchronous, new(int64(0))
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want databasev1.RedisStatus
	}{
		"running":         {app, want},
		"with replicas":   {replicated, wantReplicated},
		"what is bounded": {bounded, wantBounded},
		"with Sentinels":  {watched, wantWatched},
		// What is no longer so does not stay in the status.
		"nothing known": {&platformv1.Application{ObjectMeta: app.ObjectMeta}, databasev1.RedisStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "redis-cache"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &databasev1.Redis{Status: stale()}
			Kind{}.Report(r, c.app)
			if !reflect.DeepEqual(r.Status, c.want) {
				t.Errorf("got %+v, want %+v", r.Status, c.want)
			}
		})
	}
}

// stale is a status of which nothing is so any more.
func stale() databasev1.RedisStatus {
	return databasev1.RedisStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version: "6.2.0", Endpoint: "old:1", BindingName: "old",
			Members: []platformv1.InstanceMember{{Name: "old", Role: "primary"}},
		},
		ReplicatedStatus: databasev1.ReplicatedStatus{
			Primary: "old", ReadOnlyEndpoint: "old:2", Term: 6, Replicas: "9/9", Durability: platformv1.DurabilitySynchronous,
			LossWindowSeconds: new(int64(9)), Changes: []platformv1.PrimaryChange{{Term: 6}},
		},
		SentinelEndpoint: "old:3", Sentinels: "9/9",
	}
}
