// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestReport(t *testing.T) {
	app := &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "rediscluster-shop"},
		Spec: platformv1.ApplicationSpec{
			Components: []platformv1.ApplicationComponent{{Name: "node", Sets: shards(3)}}},
		Status: platformv1.ApplicationStatus{
			Version: "7.0.15", Ready: "4/6",
			Endpoints: []platformv1.Endpoint{{Name: "rediscluster-shop", Host: "rediscluster-shop.n.svc", Port: 6379}},
			Binding:   &platformv1.Binding{Name: "rediscluster-shop-binding"},
			Schedules: []platformv1.ScheduleStatus{{Name: "nightly"}},
			Components: []platformv1.ComponentState{{Name: "node", Pods: []platformv1.PodState{
				{Name: "s-0-0", Set: "0", Role: "primary", Health: "Healthy"},
				{Name: "s-0-1", Set: "0", Role: "replica", Health: "Healthy"},
				{Name: "s-1-0", Set: "1", Role: "primary", Health: "Unhealthy"}, {Name: "s-1-1", Set: "1", Health: "Starting"},
				// A shard that has yet to go: its members are there.
				{Name: "s-3-0", Set: "3", Role: "primary", Health: "Healthy"},
			}}},
		},
	}
	want := databasev1.RedisClusterStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version:     "7.0.15",
			Ready:       "4/6",
			Endpoint:    "rediscluster-shop.n.svc:6379",
			BindingName: "rediscluster-shop-binding",
			Application: "rediscluster-shop",
			Schedules:   []platformv1.ScheduleStatus{{Name: "nightly"}},
			Members: []platformv1.InstanceMember{
				{Name: "s-0-0", Shard: "0", Role: "primary"}, {Name: "s-0-1", Shard: "0", Role: "replica"},
				{Name: "s-1-0", Shard: "1", Role: "primary"}, {Name: "s-3-0", Shard: "3", Role: "primary"},
			},
		},
		Shards:     "1/3",
		Roles:      "3 primaries, 1 replica",
		Durability: platformv1.DurabilityAsynchronous,
	}
	old := databasev1.RedisClusterStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version:     "6.2",
			Endpoint:    "old:1",
			BindingName: "old",
			Members:     []platformv1.InstanceMember{{Name: "old"}},
		},
		Shards: "9/9",
		Roles:  "9 primaries, 9 replicas",
	}
	r := &databasev1.RedisCluster{Status: old}
	if (Kind{}).Report(r, app); !reflect.DeepEqual(r.Status, want) {
		t.Errorf("got %+v, want %+v", r.Status, want)
	}
	alone := &databasev1.RedisCluster{Spec: databasev1.RedisClusterSpec{ReplicasPerShard: new(int32(0))}, Status: old}
	if (Kind{}).Report(alone, &platformv1.Application{ObjectMeta: app.ObjectMeta}); !reflect.DeepEqual(alone.Status,
		databasev1.RedisClusterStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "rediscluster-shop"},
		}) {
		t.Errorf("nothing is known, and the status is %+v", alone.Status)
	}
}
