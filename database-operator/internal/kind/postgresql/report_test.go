// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// same is what stays so when replicas come.
var same = databasev1.PostgreSQLStatus{
	InstanceStatus: platformv1.InstanceStatus{
		Version:     "17.6",
		Endpoint:    "postgresql-shop.n.svc:5432",
		BindingName: "postgresql-shop-binding",
		Application: "postgresql-shop",
		Schedules:   []platformv1.ScheduleStatus{{Name: "nightly"}},
	},
	ReplicatedStatus: databasev1.ReplicatedStatus{
		Primary:          "postgresql-shop-postgresql-main-0",
		ReadOnlyEndpoint: "postgresql-shop-replica.n.svc:5432",
	},
}

func TestReport(t *testing.T) {
	alone := &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "postgresql-shop"},
		Status: platformv1.ApplicationStatus{
			Version: "17.6", Ready: "1/1", Primary: "postgresql-shop-postgresql-main-0", Term: 1,
			Durability: platformv1.DurabilityAsynchronous,
			Endpoints: []platformv1.Endpoint{
				{Name: "postgresql-shop", Host: "postgresql-shop.n.svc", Port: 5432, Role: "primary"},
				{Name: "postgresql-shop-replica", Host: "postgresql-shop-replica.n.svc", Port: 5432, Role: "replica"},
			},
			Binding:   &platformv1.Binding{Name: "postgresql-shop-binding"},
			Schedules: []platformv1.ScheduleStatus{{Name: "nightly"}},
			Components: []platformv1.ComponentState{{Name: "postgresql", Replicas: 1, Pods: []platformv1.PodState{
				{Name: "postgresql-shop-postgresql-main-0", Role: "primary", Health: "Healthy"},
			}}},
		},
	}
	replicated := alone.DeepCopy()
	replicated.Status.Ready, replicated.Status.Term, replicated.Status.Durability = "2/4", 7,
		platformv1.DurabilitySynchronous
	replicated.Status.LossWindowSeconds = new(int64(0))
	replicated.Status.Components = []platformv1.ComponentState{
		{Name: "postgresql", Replicas: 4, Pods: []platformv1.PodState{
			{Name: "m-0", Role: "primary", Health: "Healthy"}, {Name: "m-1", Role: "replica", Health: "Healthy"},
			{Name: "m-2", Role: "joining", Health: "Healthy"}, {Name: "m-3", Health: "Starting"},
		}}}
	replicated.Status.Components[0].Sets = []platformv1.SetState{
		{Name: "main", Changes: []platformv1.PrimaryChange{
			{Term: 7, From: "m-1", To: "m-0", Cause: platformv1.PrimaryFailed}}}}
	pooled := replicated.DeepCopy()
	pooled.Status.Components = append(pooled.Status.Components,
		platformv1.ComponentState{Name: "pooler", Replicas: 2, Pods: []platformv1.PodState{
			{Name: "b-0", Health: "Healthy"}, {Name: "b-1", Health: "Starting"},
		}})
	pooled.Status.Endpoints = append(pooled.Status.Endpoints,
		platformv1.Endpoint{Name: "postgresql-shop-pooler", Host: "postgresql-shop-pooler.n.svc", Port: 6432})
	wantAlone, wantReplicated := same, same
	wantAlone.Ready, wantAlone.Term, wantAlone.Durability, wantAlone.Replicas = "1/1", 1,
		platformv1.DurabilityAsynchronous, "0/0"
	wantAlone.Members = []platformv1.InstanceMember{{Name: "postgresql-shop-postgresql-main-0", Role: "primary"}}
	wantReplicated.Ready, wantReplicated.Term, wantReplicated.Durability, wantReplicated.Replicas = "2/4", 7,
		platformv1.DurabilitySynchronous, "1/3"
	wantReplicated.LossWindowSeconds = new(int64(0))
	wantReplicated.Changes = []platformv1.PrimaryChange{{Term: 7, From: "m-1", To: "m-0", Cause: platformv1.PrimaryFailed}}
	wantReplicated.Members = []platformv1.InstanceMember{{Name: "m-0", Role: "primary"}, {Name: "m-1", Role: "replica"},
		{Name: "m-2", Role: "joining"}}
	wantPooled := wantReplicated
	wantPooled.Poolers, wantPooled.PoolerEndpoint = "1/2", "postgresql-shop-pooler.n.svc:6432"
	for name, c := range map[string]struct {
		app  *platformv1.Application
		want databasev1.PostgreSQLStatus
	}{
		"alone":         {alone, wantAlone},
		"with replicas": {replicated, wantReplicated},
		"with poolers":  {pooled, wantPooled},
		// What is no longer so does not stay in the status.
		"nothing known": {&platformv1.Application{ObjectMeta: alone.ObjectMeta}, databasev1.PostgreSQLStatus{
			InstanceStatus: platformv1.InstanceStatus{Application: "postgresql-shop"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &databasev1.PostgreSQL{Status: stale()}
			Kind{}.Report(p, c.app)
			if !reflect.DeepEqual(p.Status, c.want) {
				t.Errorf("got %+v, want %+v", p.Status, c.want)
			}
		})
	}
}

// stale is a status of which nothing is so any more.
func stale() databasev1.PostgreSQLStatus {
	return databasev1.PostgreSQLStatus{
		InstanceStatus: platformv1.InstanceStatus{
			Version: "15.1", Endpoint: "old:1", BindingName: "old",
			Members: []platformv1.InstanceMember{{Name: "old", Role: "primary"}},
		},
		ReplicatedStatus: databasev1.ReplicatedStatus{
			Primary: "old", ReadOnlyEndpoint: "old:2", Term: 6, Replicas: "9/9", Durability: platformv1.DurabilitySynchronous,
			LossWindowSeconds: new(int64(9)), Changes: []platformv1.PrimaryChange{{Term: 6}},
		},
		Poolers: "9/9", PoolerEndpoint: "old:3",
	}
}
