// SPDX-License-Identifier: Apache-2.0

package application

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Only Backups that a drill has judged are looked at, and of them the last one tells.
func TestLastJudged(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a",
		CreationTimestamp: metav1.NewTime(time.Unix(100, 0))}}
	of := func(name, of string, judged int64) platformv1.Backup {
		b := platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: of}}}
		if judged > 0 {
			b.Status.Verified = &platformv1.BackupVerification{Time: metav1.NewTime(time.Unix(judged, 0))}
		}
		return b
	}
	all := []platformv1.Backup{of("never", "a", 0), of("first", "a", 200), of("last", "a", 300),
		of("of another", "b", 400), of("of one before", "a", 50)}
	indexed := slices.DeleteFunc(slices.Clone(all),
		func(b platformv1.Backup) bool { return !slices.Equal(endedOf(&b), []string{app.Name}) })
	if len(indexed) != 3 {
		t.Errorf("%d are looked at", len(indexed))
	}
	for _, list := range [][]platformv1.Backup{all, indexed} {
		if got := lastJudged(app, list); got == nil || got.Name != "last" {
			t.Errorf("the last is %+v", got)
		}
	}
}

// The newest Backup that is completed and there is told; one that failed, is being deleted or is of an instance of
// before is not.
func TestLastCompleted(t *testing.T) {
	at := func(seconds int64) *metav1.Time { return new(metav1.NewTime(time.Unix(seconds, 0))) }
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: *at(100)}}
	of := func(name, of string, phase platformv1.BackupPhase, ended *metav1.Time) platformv1.Backup {
		b := platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: of}}}
		b.Status.Phase, b.Status.CompletionTime = phase, ended
		return b
	}
	deleted := of("deleted", "a", platformv1.BackupCompleted, at(900))
	deleted.DeletionTimestamp = at(901)
	none := []platformv1.Backup{
		of("of one before", "a", platformv1.BackupCompleted, at(50)), of("failed", "a", platformv1.BackupFailed, at(800)),
		of("runs", "a", platformv1.BackupRunning, nil), of("of another", "b", platformv1.BackupCompleted, at(700)), deleted,
	}
	if got := lastCompleted(app, none); got != nil {
		t.Errorf("of none that counts there is %+v", got)
	}
	all := append(none, of("new", "a", platformv1.BackupCompleted, at(300)),
		of("old", "a", platformv1.BackupCompleted, at(200)), of("also new", "a", platformv1.BackupCompleted, at(300)))
	for range 2 {
		if got := lastCompleted(app, all); got == nil || got.Name != "new" || !got.CompletionTime.Equal(at(300)) {
			t.Errorf("the last is %+v", got)
		}
		slices.Reverse(all)
	}
	if runs := of("runs", "a", platformv1.BackupRunning, nil); len(endedOf(&runs)) != 0 {
		t.Error("a Backup that runs wakes its Application")
	}
}

// A drill that succeeded stays told when its Backup goes or is found bad later, until another one succeeds.
func TestTheLastVerifiedRestoreStays(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	judged := func(name string, outcome platformv1.VerificationOutcome, seconds int64) platformv1.Backup {
		b := platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "a"}}}
		b.Status.Verified = &platformv1.BackupVerification{Outcome: outcome, Operation: "drill-" + name,
			Time: metav1.NewTime(time.Unix(seconds, 0))}
		return b
	}
	const passed, failed = platformv1.VerificationPassed, platformv1.VerificationFailed
	for i, step := range []struct {
		backups []platformv1.Backup
		want    string
	}{
		{nil, ""},
		{[]platformv1.Backup{judged("bad", failed, 100)}, ""},
		{[]platformv1.Backup{judged("one", passed, 200), judged("two", passed, 300), judged("bad", failed, 400)}, "two"},
		{[]platformv1.Backup{judged("one", passed, 200), judged("two", failed, 500)}, "two"},
		{nil, "two"},
		{[]platformv1.Backup{judged("three", passed, 600)}, "three"},
	} {
		reportBackups(app, &facts{restored: lastRestored(app, step.backups)})
		got := app.Status.LastVerifiedRestore
		if step.want == "" && got != nil || step.want != "" &&
			(got == nil || got.Backup != step.want || got.Operation != "drill-"+step.want) {
			t.Errorf("step %d: got %+v, want %q", i, got, step.want)
		}
	}
}
