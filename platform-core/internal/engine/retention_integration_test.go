// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// ahead returns a clock that is so far ahead.
func ahead(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }

// backedUp makes a Backup by an Operation, and returns it when it is whole.
func backedUp(t *testing.T, app *platformv1.Application, name string, parameters ...string) *platformv1.Backup {
	t.Helper()
	ends(t, operate(t, app, name, "Backup", nil, append([]string{"repository", "store"}, parameters...)...),
		platformv1.OperationSucceeded)
	return backupIs(t, app.Namespace, name+"-backup", platformv1.BackupCompleted)
}

// The oldest go, and what is kept of them; the last one stays however old it is.
func TestRetention(t *testing.T) {
	app, played := kept(t)
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionTrue, "")
	pinned := backedUp(t, app, "pinned", "maxCount", "2", "maxAge", "24h")
	if pinned.Status.ExpiryTime == nil ||
		!pinned.Status.ExpiryTime.Time.Equal(pinned.Status.CompletionTime.Add(24*time.Hour)) {
		t.Errorf("it expires at %v, and was whole at %v", pinned.Status.ExpiryTime, pinned.Status.CompletionTime)
	}
	if err := env.Client.Patch(t.Context(), pinned,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"retention":null}}`))); err != nil {
		t.Fatal(err)
	}
	first := backedUp(t, app, "first", "maxCount", "2", "maxAge", "24h")
	second := backedUp(t, app, "second", "maxCount", "2", "maxAge", "24h")
	third := backedUp(t, app, "third", "maxCount", "2", "maxAge", "24h")
	testkit.WaitGone(t, env.Client, first)
	removed := played.verbs(t, mover.VerbDelete)
	if len(removed) != 1 {
		t.Fatalf("what removed it: %v", removed)
	}
	plan := removed[0].Spec.Template.Annotations[platformv1.MoverPlanAnnotation]
	if !strings.Contains(plan, first.Status.Key) {
		t.Errorf("what removed it: %v", removed)
	}
	stop()
	runAt(t, -1, ahead(48*time.Hour))
	testkit.WaitGone(t, env.Client, second)
	if removed = played.verbs(t, mover.VerbDelete); len(removed) != 2 {
		t.Errorf("%d were removed", len(removed))
	}
	for _, stays := range []*platformv1.Backup{pinned, third} {
		if refresh(t, stays); !stays.DeletionTimestamp.IsZero() {
			t.Errorf("Backup %q is being deleted", stays.Name)
		}
	}
}

// A retention that says nothing, or nothing that can be, is refused.
func TestRetentionsThatCannotBe(t *testing.T) {
	app, _ := kept(t)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	b := backedUp(t, app, "nightly")
	for patch, want := range map[string]string{
		`{"spec":{"retention":{}}}`:                "maxCount, maxAge or both",
		`{"spec":{"retention":{"maxCount":0}}}`:    "greater than or equal to 1",
		`{"spec":{"retention":{"maxAge":"1s"}}}`:   "a minute at least",
		`{"spec":{"method":"dump"}}`:               "only deletionPolicy, retention and cancel",
		`{"spec":{"retention":{"maxAge":"soon"}}}`: "maxAge",
	} {
		if err := env.Client.Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(patch))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", patch, err)
		}
	}
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "store"}}
	if err := env.Client.Patch(t.Context(), r,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"inventoryInterval":"5s"}}`))); err == nil ||
		!strings.Contains(err.Error(), "a minute at least") {
		t.Errorf("an inventory each 5 s: %v", err)
	}
	failed := ends(t, operate(t, app, "both", "Backup", nil, "repository", "store", "maxCount", "2", "deletionPolicy",
		"Retain"), platformv1.OperationFailed)
	if !strings.Contains(failed.Error, "leave out one or the other") {
		t.Errorf("it says %q", failed.Error)
	}
}

// inventoried waits until the inventory of a repository says something.
func inventoried(t *testing.T, namespace string, right func(*platformv1.RepositoryInventory) bool) {
	t.Helper()
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"}}
	testkit.WaitFor(t, env.Client, r, "the inventory", func() error {
		if i := r.Inventory(); i == nil || !right(i) {
			return fmt.Errorf("it is %+v", i)
		}
		return nil
	})
}

// What no object speaks of is named, and so is what is not there; a Backup says so until it is there again.
func TestInventory(t *testing.T) {
	app, played := kept(t)
	var found atomic.Pointer[mover.Result]
	found.Store(&mover.Result{})
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if p.Verb == mover.VerbList {
			return *found.Load(), platformv1.OperationSucceeded
		}
		return mover.Result{Digest: "sha256:1"}, platformv1.OperationSucceeded
	}
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	inventoried(t, app.Namespace, func(i *platformv1.RepositoryInventory) bool { return i.Time != nil && i.Kept == 0 })
	b := backedUp(t, app, "nightly")
	noJobs(t, app.Namespace)
	stop()

	orphan := app.Namespace + "/gone/old-12345678"
	found.Store(&mover.Result{Count: 1, Unknown: 1, Backups: []string{orphan}, Lost: 1,
		Missing: []string{mover.KeyDigest(b.Status.Key)}})
	_, _, stop = runAt(t, -1, ahead(25*time.Hour))
	inventoried(t, app.Namespace, func(i *platformv1.RepositoryInventory) bool {
		return i.Kept == 1 && i.Orphans == 1 && slices.Equal(i.OrphanKeys, []string{orphan}) && i.Missing == 1 &&
			slices.Equal(i.MissingBackups, []string{b.Name})
	})
	testkit.WaitFor(t, env.Client, b, "that its data is missing", func() error {
		if ready := conditions.Get(b, platformv1.ReadyCondition); ready == nil ||
			ready.Reason != platformv1.ReasonBackupDataMissing || b.Status.Phase != platformv1.BackupCompleted {
			return fmt.Errorf("it is %s: %+v", b.Status.Phase, ready)
		}
		return nil
	})
	if err := testkit.StatusLint(b); err != nil {
		t.Error(err)
	}
	noJobs(t, app.Namespace)
	stop()

	// It is found again: an inventory that says so.
	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "store"}}
	refresh(t, r)
	r.Status.Domains[0].Inventory.Missing, r.Status.Domains[0].Inventory.MissingBackups = 0, nil
	if err := env.Client.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	runAt(t, -1, ahead(25*time.Hour))
	testkit.WaitForReady(t, env.Client, b)
	if lists := played.verbs(t, mover.VerbList); len(lists) != 2 {
		t.Errorf("there were %d inventories", len(lists))
	}
}
