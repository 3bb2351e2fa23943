// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATermOfAnother(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	lease := func(holder, version string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(renewed))}}
	}
	s := &reporterLease{identity: "database_1"}
	for _, tc := range []struct {
		what  string
		lease *coordinationv1.Lease
		at    time.Duration
		left  time.Duration
	}{
		{"nobody has held it", &coordinationv1.Lease{}, 0, 0},
		{"it is ours", lease("database_1", "1", now), 0, 0},
		{"it was given back", lease("", "2", now), 0, 0},
		{"another has just taken it", lease("message_1", "3", now), 0, term},
		{"a while ago", lease("message_1", "3", now), 4 * time.Second, term - 4*time.Second},
		{"a term ago", lease("message_1", "3", now), term, 0},
		{"long ago", lease("message_1", "4", now.Add(-time.Hour)), 0, 0},
		{"its clock is ahead", lease("message_1", "5", now.Add(time.Hour)), 0, term},
		{"and it is silent", lease("message_1", "5", now.Add(time.Hour)), term, 0},
		{"it is heard of again", lease("message_1", "6", now.Add(time.Hour)), term, term},
	} {
		if got := s.left(tc.lease, now.Add(tc.at)); max(got, 0) != max(tc.left, 0) {
			t.Errorf("%s: %s are left, want %s", tc.what, got, tc.left)
		}
	}
}

func TestTakingTheLease(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s, lease := &reporterLease{identity: "database_1"}, &coordinationv1.Lease{}
	s.take(lease, now)
	s.take(lease, now.Add(time.Minute))
	if lease.Name != leaseName || *lease.Spec.HolderIdentity != s.identity || *lease.Spec.LeaseTransitions != 1 ||
		!lease.Spec.AcquireTime.Time.Equal(now) || !lease.Spec.RenewTime.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("got %+v", lease.Spec)
	}
	(&reporterLease{identity: "message_1"}).take(lease, now.Add(time.Hour))
	if *lease.Spec.HolderIdentity != "message_1" || *lease.Spec.LeaseTransitions != 2 ||
		!lease.Spec.AcquireTime.Time.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v", lease.Spec)
	}
}
