// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// A shard whose volume is gone before the cluster has begun is filled again, and nothing else is: another set's data is
// with its replicas, or served already.
func TestLostPartIsFilledAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*platformv1.WorkloadSet, *facts.Facts)
		again  bool
	}{
		"its volume is gone": {func(*platformv1.WorkloadSet, *facts.Facts) {}, true},
		"its replica is there": {func(_ *platformv1.WorkloadSet, f *facts.Facts) {
			f.Pods = map[string]*corev1.Pod{"c-node-0-1": {}}
		}, true},
		"its volume is there": {func(set *platformv1.WorkloadSet, f *facts.Facts) { claimed(set, f, "backup-uid") },
			false},
		"its volume is on its way out": {func(set *platformv1.WorkloadSet, f *facts.Facts) {
			claimed(set, f, "backup-uid")
			f.Claims[platformv1.ClaimNameFor("data", set.FirstPod())].DeletionTimestamp = &metav1.Time{Time: f.Now}
		}, true},
		"its volume is there and empty": {func(set *platformv1.WorkloadSet, f *facts.Facts) { claimed(set, f, "") }, true},
		"its pod is there": {func(_ *platformv1.WorkloadSet, f *facts.Facts) {
			f.Pods = map[string]*corev1.Pod{"c-node-0-0": {}}
		}, false},
		"it is stopped":          {func(_ *platformv1.WorkloadSet, f *facts.Facts) { f.Mode = rollout.Stopped }, false},
		"all have begun":         {func(set *platformv1.WorkloadSet, _ *facts.Facts) { set.Spec.Restore = nil }, false},
		"it has all of the data": {func(set *platformv1.WorkloadSet, _ *facts.Facts) { set.Spec.Restore.Part = "" }, false},
		"it was never filled":    {func(set *platformv1.WorkloadSet, _ *facts.Facts) { set.Status.Restore = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, f := filledShard()
			tc.change(set, f)
			if got := lostPart(set, f); got != tc.again {
				t.Errorf("it is filled again: %v, want %v", got, tc.again)
			}
			if !tc.again {
				return
			}
			set.Status.Restore = begun(set, f)
			if state := set.Status.Restore; state.Done() || state.Attempt != 3 {
				t.Errorf("it begins again as %+v", state)
			}
			if state := begun(set, f); state.Attempt != 3 || !lostPart(set, f) {
				t.Errorf("it goes on as %+v", state)
			}
			claimed(set, f, "backup-uid")
			if lostPart(set, f) {
				t.Error("it is filled a third time")
			}
		})
	}
}

// filledShard is a shard with two pods whose data came with the second attempt, without claims.
func filledShard() (*platformv1.WorkloadSet, *facts.Facts) {
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "c-node-0",
		Labels: map[string]string{platformv1.ApplicationUIDLabel: "app"}}}
	set.Spec.Replicas = 2
	set.Spec.Volumes = []platformv1.SetVolume{{Name: "data"}}
	set.Spec.Restore = &platformv1.SetRestore{From: platformv1.ComponentRestore{Backup: "b", UID: "backup-uid"}, Part: "0"}
	set.Status.Restore = &platformv1.RestoreState{Attempt: 2, CompletionTime: &metav1.Time{Time: time.Unix(0, 0)}}
	f := &facts.Facts{Now: time.Unix(60, 0), Claims: map[string]*corev1.PersistentVolumeClaim{}}
	f.Mode = rollout.Running
	return set, f
}

// claimed has the first pod's claim be there, marked with the Backup whose data it has.
func claimed(set *platformv1.WorkloadSet, f *facts.Facts, of string) {
	name := platformv1.ClaimNameFor("data", set.FirstPod())
	f.Claims[name] = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set.Labels,
			Annotations: map[string]string{platformv1.RestoredAnnotation: of}}}
}

// Servers are given objects once, when they run; before that nothing keeps their pods from being made.
func TestObjectsComeWhenServersRun(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*platformv1.WorkloadSet, *facts.Facts)
		awaits bool
	}{
		"they run": {func(*platformv1.WorkloadSet, *facts.Facts) {}, true},
		"they have them": {func(set *platformv1.WorkloadSet, f *facts.Facts) {
			set.Status.Restore.CompletionTime = &metav1.Time{Time: f.Now}
		}, false},
		"it is stopped": {func(_ *platformv1.WorkloadSet, f *facts.Facts) { f.Mode = rollout.Stopped }, false},
		"it is of a volume": {func(set *platformv1.WorkloadSet, _ *facts.Facts) {
			set.Spec.Restore.Destination = platformv1.RestoreToVolume
		}, false},
		"it is of nothing": {func(set *platformv1.WorkloadSet, _ *facts.Facts) { set.Spec.Restore = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			set, f := filledShard()
			set.Spec.Restore.Destination, set.Spec.Restore.Part, set.Status.Restore.CompletionTime = platformv1.RestoreToServers,
				"", nil
			tc.change(set, f)
			if got := awaitsObjects(set, f); got != tc.awaits {
				t.Errorf("it awaits objects: %v", got)
			}
			if set.Spec.Restore != nil && set.Spec.Restore.ToServers() && awaitsData(set, f) {
				t.Error("its pods wait for data")
			}
		})
	}
}
