// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rules are a retention; 0 is no bound.
func rules(count int32, age time.Duration) *platformv1.BackupRetention {
	r := &platformv1.BackupRetention{}
	if count > 0 {
		r.MaxCount = &count
	}
	if age > 0 {
		r.MaxAge = &metav1.Duration{Duration: age}
	}
	return r
}

// backup is one that ended so many days after the epoch.
func backup(name string, day int, changes ...func(*platformv1.Backup)) *platformv1.Backup {
	at := metav1.NewTime(epoch.AddDate(0, 0, day))
	b := &platformv1.Backup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"},
			RepositoryRef: platformv1.RepositoryReference{Name: "store"},
			Method:        "rdb", DeletionPolicy: platformv1.BackupDelete, Retention: rules(2, 0)},
		Status: platformv1.BackupStatus{Phase: platformv1.BackupCompleted, CompletionTime: &at},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

func failed(b *platformv1.Backup)  { b.Status.Phase = platformv1.BackupFailed }
func pinned(b *platformv1.Backup)  { b.Spec.Retention = nil }
func stays(b *platformv1.Backup)   { b.Spec.DeletionPolicy = platformv1.BackupRetain }
func leaving(b *platformv1.Backup) { at := metav1.NewTime(epoch); b.DeletionTimestamp = &at }
func running(b *platformv1.Backup) {
	b.Status.Phase, b.Status.CompletionTime = platformv1.BackupRunning, nil
}
func byPolicy(b *platformv1.Backup) { b.Labels[platformv1.ScheduleLabel] = "nightly" }
func other(b *platformv1.Backup)    { b.Spec.ApplicationRef.Name = "redis-b" }
func logical(b *platformv1.Backup)  { b.Spec.Method = "dump" }
func stuck(b *platformv1.Backup)    { leaving(b); b.Status.Removals = 1 }

func gone(b *platformv1.Backup) {
	b.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Reason: platformv1.ReasonBackupDataMissing}}
}

func aged(days int) func(*platformv1.Backup) {
	return func(b *platformv1.Backup) { b.Spec.Retention = rules(0, time.Duration(days)*24*time.Hour) }
}

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		backups []*platformv1.Backup
		day     int
		want    []string
		next    int
	}{
		"none":              {nil, 0, nil, 0},
		"as many as may be": {[]*platformv1.Backup{backup("a", 0), backup("b", 1)}, 9, nil, 0},
		"one too many": {[]*platformv1.Backup{backup("c", 2), backup("a", 0), backup("b", 1)}, 9,
			[]string{"a"}, 0},
		"the oldest first": {[]*platformv1.Backup{backup("d", 3), backup("b", 1), backup("a", 0), backup("c", 2)},
			9, []string{"a", "b"}, 0},
		"one that runs is none": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, running)}, 9,
			nil, 0},
		"one that goes is none": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, leaving)}, 9,
			nil, 0},
		"one that failed is none": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, failed)}, 9, nil,
			0},
		"one whose data is gone": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, gone)}, 9, nil,
			0},
		"those that failed": {[]*platformv1.Backup{backup("a", 0, failed), backup("b", 1, failed),
			backup("c", 2, failed), backup("d", 3)}, 9, []string{"a"}, 0},
		"of another instance": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, other)}, 9, nil,
			0},
		"by another method": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, logical)}, 9,
			nil, 0},
		"by a schedule": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, byPolicy)}, 9,
			nil, 0},
		"one without a retention": {[]*platformv1.Backup{backup("a", 0, pinned), backup("b", 1), backup("c", 2),
			backup("d", 3)}, 9, []string{"b"}, 0},
		"one without does not count": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, pinned)}, 9, nil,
			0},
		"one that stays": {[]*platformv1.Backup{backup("a", 0, stays), backup("b", 1), backup("c", 2)}, 9, nil,
			0},
		"too old": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, aged(7)),
			backup("c", 2, aged(7))}, 7, []string{"a"}, 8},
		"all are too old": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, aged(7)),
			backup("c", 2, aged(7))}, 99, []string{"a", "b"}, 0},
		"the last good one": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, aged(7), failed),
			backup("c", 2, aged(7), failed)}, 99, []string{"b"}, 0},
		"the last has no retention": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, pinned)}, 99,
			[]string{"a"}, 0},
		"the last one's data is gone": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, aged(7), gone)}, 99,
			nil, 0},
		"one that is missing stays": {[]*platformv1.Backup{backup("a", 0, aged(7), gone), backup("b", 1, aged(7), failed),
			backup("c", 2, aged(7))}, 99, nil, 0},
		"missing ones do not count": {[]*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2, gone),
			backup("d", 3, gone)}, 9, nil, 0},
		"each goes by its own rule": {[]*platformv1.Backup{backup("a", 0, aged(30)), backup("b", 1, aged(7)),
			backup("c", 2, aged(7))}, 9, []string{"b"}, 30},
		"at the same moment, by name": {[]*platformv1.Backup{backup("a", 0), backup("b", 0), backup("c", 0)}, 9,
			[]string{"a"}, 0},
		"a clock that was set back": {[]*platformv1.Backup{backup("a", 0, aged(7)), backup("b", 1, aged(7))}, -30, nil, 7},
		"whichever rule comes first": {[]*platformv1.Backup{
			backup("a", 0, func(b *platformv1.Backup) { b.Spec.Retention = rules(5, time.Hour) }), backup("b", 1)}, 2,
			[]string{"a"}, 0},
		"one with no end on record": {[]*platformv1.Backup{
			backup("a", 0, func(b *platformv1.Backup) { b.Status.CompletionTime = nil }), backup("b", 1), backup("c", 2)}, 9,
			nil, 0},
		"of a policy and by hand, all": {[]*platformv1.Backup{backup("a", 0, byPolicy), backup("b", 1, byPolicy),
			backup("c", 2, byPolicy), backup("d", 0)}, 9, []string{"a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(tc.backups, nil, epoch.AddDate(0, 0, tc.day))
			var due []string
			for _, v := range p.due {
				due = append(due, v.backup.Name)
			}
			if !slices.Equal(due, tc.want) {
				t.Errorf("due are %v, want %v", due, tc.want)
			}
			if want := epoch.AddDate(0, 0, tc.next); tc.next > 0 && !p.next.Equal(want) || tc.next == 0 && !p.next.IsZero() {
				t.Errorf("it looks again at %s, want day %d", p.next, tc.next)
			}
		})
	}
}

// What an instance has yet to begin with stays until it has, also when its time is over.
func TestBackupInUse(t *testing.T) {
	now := epoch.AddDate(0, 0, 9)
	backups := []*platformv1.Backup{backup("a", 0), backup("b", 1), backup("c", 2), backup("d", 3)}
	p := decide(backups, map[string]bool{"a": true, "d": true}, now)
	if len(p.due) != 1 || p.due[0].backup.Name != "b" {
		t.Errorf("due are %v, want b", p.due)
	}
	if want := now.Add(reprieve); !p.next.Equal(want) {
		t.Errorf("it looks again at %s, want %s", p.next, want)
	}
}

func TestRoom(t *testing.T) {
	going := []*platformv1.Backup{backup("a", 0), backup("b", 0, leaving), backup("c", 0, stuck)}
	if got := room(going, 2); got != 1 {
		t.Errorf("there is room for %d", got)
	}
	for i := range 2 * patience {
		going = append(going, backup(fmt.Sprint(i), 0, stuck))
	}
	if got := room(going, 2); got != 0 {
		t.Errorf("there is room for %d while none comes to an end", got)
	}
}
