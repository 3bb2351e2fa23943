// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
)

// inventory is one that was tried so long after the epoch.
func inventory(after time.Duration, change func(*platformv1.RepositoryInventory)) *platformv1.RepositoryInventory {
	at := metav1.NewTime(epoch.Add(after))
	i := &platformv1.RepositoryInventory{Tried: at, Time: &at, Kept: 3}
	if change != nil {
		change(i)
	}
	return i
}

func failing(i *platformv1.RepositoryInventory) { i.Message = "no answer" }

func TestLook(t *testing.T) {
	const hour = time.Hour
	listed := func(before *platformv1.RepositoryInventory) *jobstate.State {
		job := check(platformv1.OperationSucceeded, `{"count":4}`, 0)
		job.Follows = follows(triedAt(before))
		return job
	}
	for name, tc := range map[string]struct {
		verb   verb
		ready  metav1.ConditionStatus
		mine   *platformv1.RepositoryInventory
		latest *platformv1.RepositoryInventory
		every  time.Duration
		job    *jobstate.State
		want   verb
		after  time.Duration
		kept   int32
	}{
		"not ready": {"", metav1.ConditionFalse, nil, nil, hour, nil, "", 0, 0},
		"not ready any more": {"", metav1.ConditionFalse, inventory(0, nil), inventory(0, nil), hour, nil, "", 0,
			3},
		"the check first":          {removeCheck, metav1.ConditionTrue, nil, nil, hour, nil, removeCheck, 0, 0},
		"never yet":                {"", metav1.ConditionTrue, nil, nil, hour, nil, makeListing, 0, 0},
		"never yet, and once only": {"", metav1.ConditionTrue, nil, nil, 0, nil, makeListing, 0, 0},
		"once":                     {"", metav1.ConditionTrue, inventory(0, nil), inventory(0, nil), 0, nil, "", 0, 3},
		"it failed, and once only": {"", metav1.ConditionTrue, inventory(hour, failing), inventory(hour, failing), 0,
			nil, "", 30 * time.Minute, 3},
		"a moment ago": {"", metav1.ConditionTrue, inventory(50*time.Minute, nil),
			inventory(50*time.Minute, nil), hour, nil, "", 50 * time.Minute, 3},
		"no longer sleep than an hour": {"", metav1.ConditionTrue, inventory(hour, nil), inventory(hour, nil), 24 * hour,
			nil, "", hour, 3},
		"due": {"", metav1.ConditionTrue, inventory(0, nil), inventory(0, nil), hour, nil,
			makeListing, 0, 3},
		"another operator was faster": {"", metav1.ConditionTrue, inventory(0, nil), inventory(50*time.Minute, nil), hour,
			nil, "", 50 * time.Minute, 0},
		"under way": {"", metav1.ConditionTrue, inventory(0, nil), inventory(0, nil), hour,
			check(platformv1.OperationRunning, "", 0), "", 0, 3},
		"it has ended": {"", metav1.ConditionTrue, inventory(0, nil), inventory(0, nil), hour,
			listed(inventory(0, nil)), removeListing, 0, 4},
		"it has ended, for the first": {"", metav1.ConditionTrue, nil, nil, hour, listed(nil), removeListing, 0, 4},
		"the first one, on record": {"", metav1.ConditionTrue, inventory(0, nil), inventory(0, nil), hour, listed(nil),
			removeListing, 0, 3},
		"it is on record": {"", metav1.ConditionTrue, inventory(hour, nil), inventory(hour, nil), hour,
			listed(inventory(0, nil)), removeListing, 0, 3},
		"another one has looked since": {"", metav1.ConditionTrue, inventory(0, nil), inventory(2*hour, nil), hour,
			listed(inventory(0, nil)), removeListing, 0, 0},
		"it came to nothing, and again": {"", metav1.ConditionTrue, inventory(0, failing), inventory(0, failing), 24 * hour,
			nil, makeListing, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			before := &platformv1.RepositoryState{Inventory: tc.mine}
			f := facts{now: epoch.Add(hour), latest: tc.latest, interval: tc.every, listing: tc.job}
			d := look(decision{verb: tc.verb, state: platformv1.RepositoryState{Ready: tc.ready}}, before, f)
			kept := int32(0)
			if d.state.Inventory != nil {
				kept = d.state.Inventory.Kept
			}
			if d.verb != tc.want || d.after != tc.after || kept != tc.kept {
				t.Errorf("it does %q, looks again after %s, and says %+v", d.verb, d.after, d.state.Inventory)
			}
		})
	}
}

func backup(name string, phase platformv1.BackupPhase) platformv1.Backup {
	return platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "0123456789"},
		Spec:   platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "a"}},
		Status: platformv1.BackupStatus{Phase: phase}}
}

// What is whole has to be there; what is being made may be.
func TestCatalogue(t *testing.T) {
	leaving := backup("leaving", platformv1.BackupCompleted)
	leaving.DeletionTimestamp = &metav1.Time{Time: epoch}
	got := catalogueOf("shop", []platformv1.Backup{backup("whole", platformv1.BackupCompleted),
		backup("failed", platformv1.BackupFailed), leaving})
	if got.Folder != "shop" || !slices.Equal(got.Whole, []string{mover.KeyDigest("shop/a/whole-01234567")}) ||
		len(got.Others) != 2 {
		t.Errorf("it is %+v", got)
	}
}

func TestCompared(t *testing.T) {
	said := `{"count":9,"unknown":3,"unfinished":2,"backups":["shop/a/new-01234567","shop/a/old-1","shop/b/old-2"],` +
		`"lost":3,"missing":["` +
		mover.KeyDigest("shop/a/whole-01234567") + `","` + mover.KeyDigest("shop/a/deleted-01234567") + `"]}`
	backups := []platformv1.Backup{backup("whole", platformv1.BackupCompleted), backup("new", platformv1.BackupCompleted)}
	f := facts{now: epoch, listing: check(platformv1.OperationSucceeded, said, 0), backups: backups}
	got := compared(inventory(-time.Hour, failing), f)
	if got.Kept != 9 || got.Orphans != 2 || !slices.Equal(got.OrphanKeys, []string{"shop/a/old-1", "shop/b/old-2"}) ||
		got.Leftovers != 2 || got.Message != "" {
		t.Errorf("what no object speaks of is %+v", got)
	}
	if got.Missing != 2 || !slices.Equal(got.MissingBackups, []string{"whole"}) || !got.Tried.Time.Equal(epoch) ||
		!got.Time.Time.Equal(epoch) {
		t.Errorf("what is not there is %+v", got)
	}
}

// What was found holds until it is known better.
func TestComparedToNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		job  *jobstate.State
		says string
	}{
		"the store is away": {check(platformv1.OperationFailed, `{"reason":"RepositoryUnreachable","message":"no answer"}`,
			0), "no answer"},
		"nobody knows": {check(platformv1.OperationFailed, "", 0), "without a result"},
	} {
		got := compared(inventory(-time.Hour, nil), facts{now: epoch, listing: tc.job})
		if got.Kept != 3 || !got.Tried.Time.Equal(epoch) || !got.Time.Time.Equal(epoch.Add(-time.Hour)) ||
			!strings.Contains(got.Message, tc.says) {
			t.Errorf("%s: it is %+v", name, got)
		}
	}
	if got := compared(nil, facts{now: epoch, listing: check(platformv1.OperationSucceeded, `{}`, 0),
		backups: make([]platformv1.Backup, mover.MaxCatalogue+1)}); got.Time != nil ||
		!strings.Contains(got.Message, "12001 Backups") {
		t.Errorf("of very many it is %+v", got)
	}
}
