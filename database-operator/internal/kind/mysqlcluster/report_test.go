// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestReport(t *testing.T) {
	named := metav1.ObjectMeta{Name: "mysqlcluster-a"}
	running := &platformv1.Application{ObjectMeta: named, Status: platformv1.ApplicationStatus{
		Version: "9.7.4", Ready: "2/3", Primary: "b",
		Endpoints: []platformv1.Endpoint{{Host: "mysqlcluster-a.shop.svc", Port: 3306, Role: "primary"},
			{Host: "mysqlcluster-a-replica.shop.svc", Port: 3306, Role: "replica"}},
		Binding: &platformv1.Binding{Name: "mysqlcluster-a-binding"},
		Components: []platformv1.ComponentState{{Name: "mysql", Replicas: 3, Pods: []platformv1.PodState{
			{Name: "a", Set: "main", Role: "replica", Health: "Healthy"},
			{Name: "b", Set: "main", Role: "primary", Health: "Healthy"}, {Name: "c", Set: "main"},
		}}},
	}}
	routed := running.DeepCopy()
	routed.Status.Components = append(routed.Status.Components, platformv1.ComponentState{Name: "router", Replicas: 2,
		Pods: []platformv1.PodState{{Name: "r", Health: "Healthy"}, {Name: "s"}}})
	routed.Status.Endpoints = append(routed.Status.Endpoints,
		platformv1.Endpoint{Host: "mysqlcluster-a-router.shop.svc", Port: 6450})
	alone := running.DeepCopy()
	alone.Status.Components[0].Pods = alone.Status.Components[0].Pods[1:]
	of := func(durability platformv1.Durability, window *int64, replicas string,
		members ...platformv1.InstanceMember) databasev1.MySQLClusterStatus {
		return databasev1.MySQLClusterStatus{
			InstanceStatus: platformv1.InstanceStatus{
				Application: "mysqlcluster-a", Version: "9.7.4", Ready: "2/3", Members: members,
				Endpoint: "mysqlcluster-a.shop.svc:3306", BindingName: "mysqlcluster-a-binding",
			},
			ReplicatedStatus: databasev1.ReplicatedStatus{
				Primary: "b", Replicas: replicas, Durability: durability, LossWindowSeconds: window,
				ReadOnlyEndpoint: "mysqlcluster-a-replica.shop.svc:3306",
			},
		}
	}
	withRouter := func(s databasev1.MySQLClusterStatus) databasev1.MySQLClusterStatus {
		s.Routers, s.RouterEndpoint = "1/2", "mysqlcluster-a-router.shop.svc:6450"
		return s
	}
	primary := platformv1.InstanceMember{Name: "b", Role: "primary"}
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want databasev1.MySQLClusterStatus
	}{
		"running": {running, of(platformv1.DurabilitySynchronous, new(int64(0)), "1/2",
			platformv1.InstanceMember{Name: "a", Role: "replica"}, primary)},
		"behind a router": {routed, withRouter(of(platformv1.DurabilitySynchronous, new(int64(0)), "1/2",
			platformv1.InstanceMember{Name: "a", Role: "replica"}, primary))},
		// Nobody else has what it acknowledges.
		"alone": {alone, of("", nil, "0/2", primary)},
		// What is no longer so does not stay in the status.
		"nothing known": {&platformv1.Application{ObjectMeta: named}, databasev1.MySQLClusterStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "mysqlcluster-a"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &databasev1.MySQLCluster{Status: databasev1.MySQLClusterStatus{
				InstanceStatus: platformv1.InstanceStatus{
					Version: "0", Ready: "0/1", Endpoint: "old:1", BindingName: "old",
					Members: []platformv1.InstanceMember{{Name: "old", Role: "old"}},
				},
				Routers: "9/9", RouterEndpoint: "old:1",
				ReplicatedStatus: databasev1.ReplicatedStatus{Primary: "old", Replicas: "9/9",
					Durability: platformv1.DurabilitySynchronous, ReadOnlyEndpoint: "old:1"},
			}}
			if (Kind{}).Report(obj, c.app); !reflect.DeepEqual(obj.Status, c.want) {
				t.Errorf("got %+v, want %+v", obj.Status, c.want)
			}
		})
	}
}
