// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/generations"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/primary"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/volumes"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// someFacts are those of a set with a pod that runs, one that ends, and a claim that grows.
func someFacts() *facts.Facts {
	now := time.Unix(1000, 0)
	pod := func(name, ordinal string, deleted *metav1.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: deleted,
			Labels: map[string]string{platformv1.OrdinalLabel: ordinal, platformv1.RoleLabel: "primary"}}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-redis-a-redis-main-0",
		Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid-1"}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return &facts.Facts{Now: now,
		Pods: map[string]*corev1.Pod{"redis-a-redis-main-0": pod("redis-a-redis-main-0", "0", nil),
			"redis-a-redis-main-1": pod("redis-a-redis-main-1", "1", &metav1.Time{Time: now.Add(time.Minute)})},
		Claims:  map[string]*corev1.PersistentVolumeClaim{claim.Name: claim},
		Classes: map[string]*storagev1.StorageClass{"any": {AllowVolumeExpansion: new(true)}},
		Primary: &platformv1.PrimaryRecord{Term: 3, Member: &platformv1.SetMember{Name: "redis-a-redis-main-0"},
			Since: &metav1.Time{Time: now}}}
}

// TestPlanningChangesNoFacts: what one sub-reconciler plans is nothing that another one finds in its facts.
func TestPlanningChangesNoFacts(t *testing.T) {
	for name, change := range map[string]func(*platformv1.WorkloadSet){
		"an engine that decides": func(s *platformv1.WorkloadSet) { s.Spec.Failover = &platformv1.SetFailover{} },
		"members that elect": func(s *platformv1.WorkloadSet) {
			s.Spec.Switchover = &platformv1.SetSwitchover{Roles: []string{"replica"}}
		},
		"other volumes": func(s *platformv1.WorkloadSet) { s.Spec.Data = &platformv1.SetData{Generation: "g2"} },
	} {
		t.Run(name, func(t *testing.T) {
			set, f := testSet(), someFacts()
			set.Spec.Roles = []platformv1.SetRole{{Name: "primary", Access: platformv1.RoleReadWrite},
				{Name: "replica", Access: platformv1.RoleReadOnly}}
			change(set)
			verdict := pods.Begin(set, f)
			st := &state{Draft: verdict.Draft, pods: verdict, primary: &primary.Verdict{Draft: verdict.Draft}}
			st.Rollout.Mode = rollout.Stopped
			c := newController(Deps{Now: func() time.Time { return f.Now }}, access{})
			if err := c.assess(t.Context(), set, st, f); err != nil {
				t.Fatal(err)
			}
			st.Rollout.Mode = rollout.Running
			steps := c.primary.Plan(set, st.Draft)
			generations.Plan(set, f)
			volumes.Plan(set, f)
			volumes.Forecast(set, f)
			report(set, st)
			sayFirst(st, settle(set, st, steps))
			was := someFacts()
			for what, pair := range map[string][2]any{"pods": {f.Pods, was.Pods}, "claims": {f.Claims, was.Claims},
				"classes": {f.Classes, was.Classes}, "record": {f.Primary, was.Primary}, "mode": {f.Mode, was.Mode},
				"window": {f.Window, was.Window}} {
				if !equality.Semantic.DeepEqual(pair[0], pair[1]) {
					t.Errorf("%s: %+v, and before %+v", what, pair[0], pair[1])
				}
			}
			if st.Facts != f {
				t.Error("there are other facts by now")
			}
		})
	}
}
