// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const whole = `{"digest":"sha256:1","size":10,"rawSize":30,"facts":{"timeline":"3"}}`

// made is a Backup with ten minutes, made at the epoch.
func made(change func(*platformv1.Backup)) *platformv1.Backup {
	b := &platformv1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "0123456789-abc",
			CreationTimestamp: metav1.NewTime(epoch), Finalizers: []string{platformv1.BackupFinalizer}},
		Spec: platformv1.BackupSpec{
			ApplicationRef: platformv1.ApplicationReference{Name: "redis-cache"},
			RepositoryRef:  platformv1.RepositoryReference{Name: "store"},
			Method:         "rdb", DeletionPolicy: platformv1.BackupDelete, Timeout: metav1.Duration{Duration: 10 * time.Minute},
		},
	}
	if change != nil {
		change(b)
	}
	return b
}

// running is a Backup whose mover was seen.
func running(b *platformv1.Backup) {
	b.Status.Phase, b.Status.Key, b.Status.Mover = platformv1.BackupRunning, "shop/redis-cache/nightly-01234567", "uid"
	b.Status.Source = &platformv1.BackupSource{Pod: "redis-cache-redis-main-1"}
}

func completed(b *platformv1.Backup) {
	running(b)
	b.Status.Phase, b.Status.Digest = platformv1.BackupCompleted, "sha256:1"
}

func failed(b *platformv1.Backup) {
	running(b)
	at := metav1.NewTime(epoch)
	b.Status.Phase, b.Status.Leftovers, b.Status.Message, b.Status.CompletionTime = platformv1.BackupFailed,
		platformv1.LeftoversPossible, "no room", &at
}

func all(changes ...func(*platformv1.Backup)) func(*platformv1.Backup) {
	return func(b *platformv1.Backup) {
		for _, change := range changes {
			change(b)
		}
	}
}

func cancelled(b *platformv1.Backup) { b.Spec.Cancel = true }
func retained(b *platformv1.Backup)  { b.Spec.DeletionPolicy = platformv1.BackupRetain }
func deleted(b *platformv1.Backup)   { at := metav1.NewTime(epoch); b.DeletionTimestamp = &at }

func job(phase platformv1.OperationPhase, said string) *jobstate.State {
	return &jobstate.State{UID: "uid", Phase: phase, Said: said, Message: said, Ended: epoch}
}

// ready are the facts of a Backup that can begin, a minute after it was made.
func ready(change func(*facts)) facts {
	f := facts{now: epoch.Add(time.Minute), limit: 2, version: "7.0", component: "redis",
		source: &platformv1.BackupSource{Pod: "redis-cache-redis-main-1", Role: "replica"}}
	if change != nil {
		change(&f)
	}
	return f
}

func at(after time.Duration, mover *jobstate.State) facts {
	return facts{now: epoch.Add(after), mover: mover}
}

// Jobs of Backups.
var (
	working = job(platformv1.OperationRunning, "")
	ended   = job(platformv1.OperationSucceeded, whole)
	broken  = job(platformv1.OperationFailed, `{"reason":"RepositoryFull","message":"the store is full"}`)
)

// nextCases are what is known of a Backup, and what is to be done.
var nextCases = map[string]struct {
	backup *platformv1.Backup
	facts  facts
	phase  platformv1.BackupPhase
	effect effect
	says   string
}{
	"it begins": {made(nil), ready(nil), platformv1.BackupRunning, makeMover, ""},
	"two run before it": {made(nil), ready(func(f *facts) { f.ahead = []string{"a", "b"} }),
		platformv1.BackupPending, "", "its turn behind a, b"},
	"nobody has the data": {made(nil), ready(func(f *facts) { f.source, f.waits = nil, "a pod" }),
		platformv1.BackupPending, "", "waiting for a pod"},
	"nobody had it in time": {made(nil),
		ready(func(f *facts) { f.source, f.waits, f.now = nil, "a pod", epoch.Add(10*time.Minute) }),
		platformv1.BackupFailed, "", "it waited for a pod"},
	"it can never be": {made(nil), ready(func(f *facts) { f.refusal = "no such method" }),
		platformv1.BackupFailed, "", "no such method"},
	"cancelled before it began": {made(cancelled), ready(nil), platformv1.BackupFailed, "", "cancelled"},
	"the operator died before the Job": {made(all(running, func(b *platformv1.Backup) { b.Status.Mover = "" })),
		at(time.Minute, nil), platformv1.BackupRunning, makeMover, ""},
	"the operator died after the Job": {made(all(running, func(b *platformv1.Backup) { b.Status.Mover = "" })),
		at(time.Minute, working), platformv1.BackupRunning, "", "takes the data from pod redis-cache-redis-main-1"},
	"cancelled with no Job yet": {
		made(all(running, cancelled, func(b *platformv1.Backup) { b.Status.Mover = "" })), at(time.Minute, nil),
		platformv1.BackupFailed, "", "cancelled"},
	"it runs": {made(running), at(time.Minute, working), platformv1.BackupRunning, "",
		"takes the data"},
	"its pod does not start": {made(running),
		at(time.Minute, job(platformv1.OperationRunning, "ErrImagePull: no image")), platformv1.BackupRunning, "",
		"ErrImagePull"},
	"the backup is complete": {made(running), at(time.Minute, ended), platformv1.BackupCompleted, "", ""},
	"it is whole although cancelled": {made(all(running, cancelled)), at(time.Minute, ended),
		platformv1.BackupCompleted, "", ""},
	"the store is full": {made(running), at(time.Minute, broken), platformv1.BackupFailed, "",
		"the store is full"},
	"the mover was killed": {made(running),
		at(time.Minute, job(platformv1.OperationFailed, "exit code 137: OOMKilled")), platformv1.BackupFailed, "",
		"exit code 137"},
	"it ended well and said nothing": {made(running), at(time.Minute, job(platformv1.OperationSucceeded, `{}`)),
		platformv1.BackupFailed, "", "without a backup"},
	"somebody deleted the Job": {made(running), at(time.Minute, nil), platformv1.BackupFailed, "",
		"deleted before it had ended"},
	"cancelled": {made(all(running, cancelled)), at(time.Minute, working),
		platformv1.BackupRunning, stopMover, "cancelled"},
	"cancelled, and the mover is gone": {made(all(running, cancelled)), at(time.Minute, nil), platformv1.BackupFailed,
		"", "cancelled"},
	"the cluster has yet to end it": {made(running), at(10*time.Minute+30*time.Second, working),
		platformv1.BackupRunning, "", ""},
	"its node is lost": {made(running), at(12*time.Minute, working), platformv1.BackupFailed, "",
		"does not end"},
	"whole, and its Job is there": {made(completed), at(time.Hour, ended), platformv1.BackupCompleted, stopMover,
		""},
	"whole, for long": {made(completed), at(time.Hour, nil), platformv1.BackupCompleted, "", ""},
	"whole, and nothing of it is there": {made(completed), facts{now: epoch, missing: dataMissing},
		platformv1.BackupCompleted, "", "put it back, or delete"},
	"failed: the mover first": {made(failed), at(time.Second, working), platformv1.BackupFailed, stopMover,
		"no room"},
	"failed: then what it left": {made(failed), at(time.Second, broken), platformv1.BackupFailed, makeRemover,
		"no room"},
	"failed: its node is lost": {made(failed), at(time.Hour, working), platformv1.BackupFailed, makeRemover,
		"no room"},
	"failed: the store is away for long": {
		made(all(failed, func(b *platformv1.Backup) { b.Status.Removals = mostRemovals })), at(time.Hour, nil),
		platformv1.BackupFailed, "", "no room"},
	"deleted": {made(all(completed, deleted)), at(time.Second, nil),
		platformv1.BackupDeleting, makeRemover, "waiting"},
	"deleted, and it stays there": {made(all(completed, deleted, retained)), at(time.Second, nil),
		platformv1.BackupDeleting, release, ""},
	"deleted while it runs, Retain": {made(all(running, deleted, retained)), at(time.Second, working),
		platformv1.BackupDeleting, stopMover, "its mover"},
	"deleted half made, Retain": {made(all(running, deleted, retained)), at(time.Second, nil),
		platformv1.BackupDeleting, makeRemover, "waiting"},
	"deleted when its mover failed": {made(all(running, deleted, retained)), at(time.Second, broken),
		platformv1.BackupDeleting, makeRemover, "waiting"},
	"deleted when it was just whole": {made(all(running, deleted, retained)), at(time.Second, ended),
		platformv1.BackupDeleting, release, ""},
	"deleted, failed and not swept": {
		made(all(failed, deleted, retained, func(b *platformv1.Backup) { b.Status.Removals = mostRemovals })),
		at(time.Second, nil), platformv1.BackupDeleting, makeRemover, "waiting"},
	"half made, and the store is away": {made(all(failed, deleted, retained)),
		facts{now: epoch.Add(time.Second), remover: broken}, platformv1.BackupDeleting, "", "when 1h0m0s have passed"},
	"half made, and it is away for long": {made(all(failed, deleted, retained)),
		facts{now: epoch.Add(halfPatience + time.Second), remover: broken}, platformv1.BackupDeleting, release, ""},
	"half made, and nobody tried yet": {made(all(failed, deleted, retained)),
		facts{now: epoch.Add(halfPatience + time.Second)}, platformv1.BackupDeleting, makeRemover, "waiting"},
	"half made, with no Secret for long": {made(all(failed, deleted, retained)),
		facts{now: epoch.Add(halfPatience + time.Second), store: "Secret is not there"}, platformv1.BackupDeleting, release,
		""},
	"half made, Delete, away for long": {made(all(failed, deleted)),
		facts{now: epoch.Add(halfPatience + time.Second), remover: job(platformv1.OperationFailed, "gone"),
			store: "Secret is not there"}, platformv1.BackupDeleting, "", "set deletionPolicy to Retain"},
	"deleted before it began": {made(deleted), at(time.Second, nil), platformv1.BackupDeleting, release, ""},
	"deleted while it runs": {made(all(running, deleted)), at(time.Second, working),
		platformv1.BackupDeleting, stopMover, "its mover"},
	"deleted, and the mover does not end": {made(all(running, deleted)), at(3*time.Minute, working),
		platformv1.BackupDeleting, makeRemover, ""},
	"deleted, with no repository": {made(all(completed, deleted)), facts{now: epoch, vanished: "there is none"},
		platformv1.BackupDeleting, release, ""},
	"deleted, with no Secret": {made(all(completed, deleted)),
		facts{now: epoch, store: "Secret is not there"}, platformv1.BackupDeleting, "", "set deletionPolicy to Retain"},
	"deleted, and it is being removed": {made(all(completed, deleted)), facts{now: epoch, remover: working},
		platformv1.BackupDeleting, "", "waiting"},
	"deleted, and it is removed": {made(all(completed, deleted)),
		facts{now: epoch, remover: job(platformv1.OperationSucceeded, `{}`)}, platformv1.BackupDeleting, release, ""},
	"deleted, and it was not there": {made(all(completed, deleted)),
		facts{now: epoch, remover: job(platformv1.OperationFailed, `{"reason":"BackupNotFound"}`)},
		platformv1.BackupDeleting, release, ""},
	"deleted, and the store is away": {made(all(completed, deleted)),
		facts{now: epoch.Add(time.Second), remover: broken}, platformv1.BackupDeleting, "", "the store is full"},
	"deleted, and the store was away": {made(all(completed, deleted)),
		facts{now: epoch.Add(time.Minute), remover: broken}, platformv1.BackupDeleting, stopRemover, ""},
	"deleted, failed, and swept": {
		made(all(failed, deleted, func(b *platformv1.Backup) { b.Status.Leftovers = platformv1.LeftoversNone })),
		at(time.Second, nil), platformv1.BackupDeleting, release, ""},
	"failed, and what it left was removed": {made(failed),
		facts{now: epoch, remover: job(platformv1.OperationSucceeded, `{}`)}, platformv1.BackupFailed, stopRemover,
		"no room"},
}

func TestNext(t *testing.T) {
	for name, tc := range nextCases {
		t.Run(name, func(t *testing.T) {
			d := next(tc.backup, tc.facts)
			if d.status.Phase != tc.phase || d.effect != tc.effect {
				t.Errorf("phase %s, effect %q; want %s, %q; %s", d.status.Phase, d.effect, tc.phase, tc.effect, d.status.Message)
			}
			if !strings.Contains(d.status.Message, tc.says) || tc.says == "" && d.status.Phase == platformv1.BackupCompleted &&
				d.status.Message != "" {
				t.Errorf("it says %q, want %q in it", d.status.Message, tc.says)
			}
			if d.effect == release && d.outcome.Kind() != outcome.KindDone {
				t.Errorf("it is let go with outcome %s", d.outcome.Kind())
			}
		})
	}
}

// What the mover says is on record; what was begun is never begun by another name.
func TestWhatIsRecorded(t *testing.T) {
	b := made(nil)
	d := next(b, ready(nil))
	b.Status = d.status
	if b.Status.Key != "shop/redis-cache/nightly-01234567" || b.Status.Source.Role != "replica" ||
		b.Status.Version != "7.0" || b.Status.StartTime == nil {
		t.Errorf("it begins as %+v", b.Status)
	}
	if again := next(b, at(2*time.Minute, nil)); again.effect != makeMover || again.status.Key != d.status.Key {
		t.Errorf("it goes on as %+v", again)
	}
	b.Status = next(b, at(2*time.Minute, job(platformv1.OperationSucceeded, whole))).status
	if b.Status.Size != 10 || b.Status.RawSize != 30 || b.Status.Digest != "sha256:1" ||
		b.Status.Facts["timeline"] != "3" || b.Status.CompletionTime == nil || b.Status.Leftovers != "" {
		t.Errorf("it ends as %+v", b.Status)
	}
}

// What may be left in the store is known from the moment that there may be a mover.
func TestLeftovers(t *testing.T) {
	for name, tc := range map[string]struct {
		backup *platformv1.Backup
		facts  facts
		want   platformv1.BackupLeftovers
	}{
		"it never began":      {made(cancelled), ready(nil), platformv1.LeftoversNone},
		"its mover was there": {made(running), at(time.Minute, nil), platformv1.LeftoversPossible},
		"its mover failed": {made(running), at(time.Minute, job(platformv1.OperationFailed, "killed")),
			platformv1.LeftoversPossible},
		"half made":          {made(all(running, deleted, retained)), at(time.Minute, nil), platformv1.LeftoversPossible},
		"whole, and deleted": {made(all(completed, deleted, retained)), at(time.Minute, nil), ""},
		"removed": {made(failed), facts{now: epoch, remover: job(platformv1.OperationSucceeded, `{}`)},
			platformv1.LeftoversNone},
	} {
		if got := next(tc.backup, tc.facts).status.Leftovers; got != tc.want {
			t.Errorf("%s: leftovers %q, want %q", name, got, tc.want)
		}
	}
}

// What is half made is removed whatever the deletionPolicy: it is known to be so for as long as the Backup is there.
func TestHalfABackupGoes(t *testing.T) {
	b := made(all(running, deleted, retained))
	for i, step := range []struct {
		facts  facts
		effect effect
	}{
		{at(time.Second, job(platformv1.OperationRunning, "")), stopMover},
		{at(2*time.Second, nil), makeRemover},
		{facts{now: epoch.Add(time.Minute), remover: job(platformv1.OperationSucceeded, `{}`)}, release},
	} {
		d := next(b, step.facts)
		if d.effect != step.effect || d.left != "" {
			t.Errorf("turn %d does %q, want %q; it leaves %q", i, d.effect, step.effect, d.left)
		}
		b.Status = d.status
	}
	away := made(all(failed, deleted, retained))
	d := next(away, facts{now: epoch.Add(2 * halfPatience), store: "Secret is not there"})
	if !strings.Contains(d.left, "Secret is not there; the backup is incomplete: remove that folder") {
		t.Errorf("what stays is told as %q", d.left)
	}
}

// The longer a store is away, the more seldom it is asked.
func TestRemovalsBackOff(t *testing.T) {
	before := time.Duration(0)
	for tries := range int32(12) {
		b := made(all(completed, deleted))
		b.Status.Removals = tries
		d := next(b, facts{now: epoch, remover: job(platformv1.OperationFailed,
			`{"reason":"RepositoryUnreachable","message":"no answer"}`)})
		wait := d.outcome.After()
		if wait < before || wait > longestRemovalRetry || d.effect != "" {
			t.Errorf("after %d tries it waits %s, effect %q; before it was %s", tries, wait, d.effect, before)
		}
		before = wait
	}
	if before != longestRemovalRetry {
		t.Errorf("in the end it waits %s", before)
	}
}

// Turns go by the time of creation, and who could not begin anyway keeps nobody waiting.
func TestTurns(t *testing.T) {
	older := made(func(b *platformv1.Backup) {
		b.Name, b.CreationTimestamp = "z",
			metav1.NewTime(epoch.Add(-time.Second))
	})
	same := made(func(b *platformv1.Backup) { b.Name = "a" })
	b := made(nil)
	if !before(older, b) || !before(same, b) || before(b, same) {
		t.Error("the order is not that of creation and name")
	}
	stuck := made(func(b *platformv1.Backup) {
		b.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition, Reason: platformv1.ReasonNoBackupSource}}
	})
	for name, tc := range map[string]struct {
		backup *platformv1.Backup
		want   bool
	}{"new": {b, true}, "without a source": {stuck, false}, "running": {made(running), false},
		"deleted": {made(deleted), false}} {
		if waitsForTurn(tc.backup) != tc.want {
			t.Errorf("%s: waits for its turn: %v", name, !tc.want)
		}
	}
}

// Whoever waits knows behind whom.
func TestWhoIsAhead(t *testing.T) {
	as := func(name string, after time.Duration, change func(*platformv1.Backup)) platformv1.Backup {
		return *made(func(b *platformv1.Backup) {
			b.Name, b.CreationTimestamp = name, metav1.NewTime(epoch.Add(after))
			if change != nil {
				change(b)
			}
		})
	}
	elsewhere := func(b *platformv1.Backup) { b.Spec.RepositoryRef.Name = "other" }
	all := []platformv1.Backup{as("late", time.Second, nil), as("second", -time.Second, nil),
		as("first", -time.Minute, nil), as("runs", time.Minute, running), as("elsewhere", -time.Hour, elsewhere),
		as("whole", -time.Hour, completed), *made(nil)}
	if got := named(aheadOf(made(nil), all)); got != "runs, first, second" {
		t.Errorf("it is behind %s", got)
	}
	if got := named([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Errorf("it is behind %s", got)
	}
}

// The time of its end by age follows the retention, and what is to stay has none.
func TestExpiry(t *testing.T) {
	aged := func(b *platformv1.Backup) {
		at := metav1.NewTime(epoch)
		b.Status.CompletionTime, b.Spec.Retention = &at,
			&platformv1.BackupRetention{MaxAge: &metav1.Duration{Duration: time.Hour}}
	}
	if d := next(made(all(completed, aged)), facts{now: epoch}); d.status.ExpiryTime == nil ||
		!d.status.ExpiryTime.Time.Equal(epoch.Add(time.Hour)) {
		t.Errorf("it expires at %v", d.status.ExpiryTime)
	}
	for _, change := range []func(*platformv1.Backup){retained, func(b *platformv1.Backup) { b.Spec.Retention = nil }} {
		b := made(all(completed, aged, func(b *platformv1.Backup) { b.Status.ExpiryTime = b.Status.CompletionTime }, change))
		if d := next(b, facts{now: epoch}); d.status.ExpiryTime != nil {
			t.Errorf("it expires at %v", d.status.ExpiryTime)
		}
	}
}

// A Backup that was made of what is kept says what its repository said of it, at once, and keeps nobody waiting for a
// turn.
func TestImportedBackup(t *testing.T) {
	b := made(func(b *platformv1.Backup) {
		b.Spec.Retention = &platformv1.BackupRetention{MaxAge: &metav1.Duration{Duration: time.Hour}}
		b.Spec.Imported = &platformv1.ImportedBackup{Key: "shop/redis-cache/old-1", Digest: "sha256:1", Size: 10, RawSize: 30,
			StartTime: metav1.NewTime(epoch), CompletionTime: metav1.NewTime(epoch.Add(time.Minute)),
			Plugin: platformv1.PluginReference{Name: "redis", Version: "1.0.0"}, Version: "7.0",
			Facts: map[string]string{"role": "master"}, Source: &platformv1.BackupSource{Pod: "a-0"}}
	})
	if waitsForTurn(b) || platformv1.BackupKeyFor(b) != "shop/redis-cache/old-1" {
		t.Errorf("it waits for a turn, or is kept in %s", platformv1.BackupKeyFor(b))
	}
	d := next(b, facts{now: epoch.Add(48 * time.Hour)})
	s := d.status
	if s.Phase != platformv1.BackupCompleted || s.Key != "shop/redis-cache/old-1" || s.Digest != "sha256:1" ||
		s.RawSize != 30 || s.Plugin.Name != "redis" || s.Version != "7.0" || s.Method != "rdb" ||
		s.SourcePods != "a-0" || s.Facts["role"] != "master" || s.Duration.Duration != time.Minute ||
		!s.ExpiryTime.Equal(new(metav1.NewTime(epoch.Add(61*time.Minute)))) || d.effect != "" {
		t.Errorf("it comes to %+v and does %q", s, d.effect)
	}
	b.DeletionTimestamp = new(metav1.NewTime(epoch))
	if d := next(b, facts{now: epoch}); d.effect != release {
		t.Errorf("one that goes before it said anything does %q", d.effect)
	}
}
