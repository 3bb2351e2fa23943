// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
)

// An attempt that gets somewhere is not ended: the deadline follows what is known of the Backup, and is never without a
// bound.
func TestRestoreDeadline(t *testing.T) {
	const day = 24 * time.Hour
	whole := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := func(took time.Duration, size int64, changes ...func(*platformv1.Backup)) *platformv1.Backup {
		b := &platformv1.Backup{Status: platformv1.BackupStatus{RawSize: size, CompletionTime: new(metav1.NewTime(whole))}}
		if took != 0 {
			b.Status.Duration = &metav1.Duration{Duration: took}
		}
		for _, change := range changes {
			change(b)
		}
		return b
	}
	snapshot := func(b *platformv1.Backup) { b.Spec.Type = platformv1.BackupSnapshot }
	untimed := func(b *platformv1.Backup) { b.Status.CompletionTime = nil }
	to := func(after time.Duration) *platformv1.RestoreTarget {
		return &platformv1.RestoreTarget{Time: whole.Add(after).Format(time.RFC3339Nano)}
	}
	for name, tc := range map[string]struct {
		backup *platformv1.Backup
		target *platformv1.RestoreTarget
		want   time.Duration
	}{
		"nothing is known":               {of(0, 0, untimed), to(day), day},
		"small and fast":                 {of(5*time.Second, 1<<20), nil, day},
		"it took long":                   {of(20*time.Hour, 1<<30), nil, 200 * time.Hour},
		"it took part of a second":       {of(day+100*time.Millisecond, 0), nil, 10*day + time.Second},
		"large, and how long is unknown": {of(0, 1<<40), nil, 1 << 20 * time.Second},
		"large, and little was new":      {of(time.Minute, 1<<40), nil, 1 << 20 * time.Second},
		"a large snapshot":               {of(time.Minute, 1<<40, snapshot), nil, day},
		"a snapshot that took long":      {of(day, 1<<40, snapshot), nil, 10 * day},
		"a week of log":                  {of(time.Minute, 1<<30), to(7 * day), 8 * day},
		"a time before it":               {of(time.Minute, 1<<30), to(-day), day},
		"a time that is none":            {of(time.Minute, 1<<30), &platformv1.RestoreTarget{Time: "noon"}, day},
		"it says too much":               {of(math.MaxInt64, math.MaxInt64), to(math.MaxInt64), 90 * day},
		"it says nonsense":               {of(math.MinInt64, math.MinInt64), nil, day},
	} {
		if got := restoreDeadline(tc.backup, tc.target); got != tc.want {
			t.Errorf("%s: an attempt may take %s, want %s", name, got, tc.want)
		}
	}
}

// A claim that goes while data is written to it is no proof that the data is there: its pod would begin with an empty
// one.
func TestAVolumeThatGoesIsNotFilled(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(claim *corev1.PersistentVolumeClaim)
		servers bool
		lost    bool
		marked  bool
	}{
		"it is there": {change: func(*corev1.PersistentVolumeClaim) {}, marked: true},
		"it is on its way out": {change: func(claim *corev1.PersistentVolumeClaim) {
			claim.Finalizers, claim.DeletionTimestamp = []string{"a/b"}, &metav1.Time{Time: time.Unix(1, 0)}
		}, lost: true},
		"it is gone": {lost: true},
		"another Application's has its name": {change: func(claim *corev1.PersistentVolumeClaim) {
			claim.Labels[platformv1.ApplicationUIDLabel] = "another"
		}, lost: true},
		"servers have the data": {servers: true},
	} {
		set := testSet()
		set.Spec.Restore = &platformv1.SetRestore{From: platformv1.ComponentRestore{Backup: "b", UID: "backup-uid"}}
		if tc.servers {
			set.Spec.Restore.Destination = platformv1.RestoreToServers
		}
		objects := fake.NewClientBuilder().WithScheme(scheme.Scheme)
		claim := testClaim("2Gi")
		claim.Namespace = set.Namespace
		for key, value := range facts.Selector(set) {
			claim.Labels[key] = value
		}
		if tc.change != nil {
			tc.change(claim)
			objects = objects.WithObjects(claim)
		}
		api := objects.Build()
		r := &Reconciler{Observer: facts.Observer{Live: api}, Client: api}
		lost, err := r.noteFilled(t.Context(), set, &facts.Facts{})
		if err != nil || (lost != "") != tc.lost {
			t.Errorf("%s: lost is %q, %v", name, lost, err)
		}
		if tc.change == nil {
			continue
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		if marked := claim.Annotations[platformv1.RestoredAnnotation] == "backup-uid"; marked != tc.marked {
			t.Errorf("%s: it is marked: %v", name, marked)
		}
	}
}
