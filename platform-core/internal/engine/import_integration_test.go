// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// shelf plays the movers of a repository that outlived all objects.
type shelf struct {
	mu sync.Mutex
	// kept are the backups there, and damaged those that cannot be restored.
	kept    map[string]mover.Record
	damaged []string
	// page is how many are told at a time.
	page int
}

// keep has what a Backup was made of on the shelf, with the metadata that its mover was given.
func (s *shelf) keep(t *testing.T, b *platformv1.Backup, plan mover.Plan) {
	t.Helper()
	record := mover.Record{Key: b.Status.Key, Digest: b.Status.Digest, Size: b.Status.Size, RawSize: b.Status.RawSize,
		Facts: b.Status.Facts, Compression: plan.Backup.Compression,
		StartTime: b.Status.StartTime.Time, EndTime: b.Status.CompletionTime.Time}
	if err := json.Unmarshal(plan.Backup.Metadata, &record.Origin); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[record.Key] = record
}

func (s *shelf) plays(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]bool{}
	if p.Catalogue != nil {
		for _, digest := range append(slices.Clone(p.Catalogue.Whole), p.Catalogue.Others...) {
			known[digest] = true
		}
	}
	var unknown []string
	for key := range s.kept {
		if !known[mover.KeyDigest(key)] {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	switch p.Verb {
	case mover.VerbList:
		return mover.Result{Count: len(s.kept), KeptBytes: int64(10 * len(s.kept)), Unknown: len(unknown),
			Backups: unknown[:min(len(unknown), 40)]}, platformv1.OperationSucceeded
	case mover.VerbRecall:
		unknown = slices.DeleteFunc(unknown, func(key string) bool { return key <= p.Catalogue.After })
		told := &mover.Recall{Left: max(0, len(unknown)-s.page)}
		for _, key := range unknown[:min(len(unknown), s.page)] {
			told.Last = key
			if slices.Contains(s.damaged, key) {
				told.Failures = append(told.Failures,
					mover.Failure{Key: key, Reason: mover.ReasonDamaged, Message: "the part data-00001 is missing"})
				continue
			}
			told.Records = append(told.Records, s.kept[key])
		}
		packed, err := told.Pack()
		if err != nil {
			return mover.Result{Reason: mover.ReasonBadPlan, Message: err.Error()}, platformv1.OperationFailed
		}
		return mover.Result{Recall: packed}, platformv1.OperationSucceeded
	}
	return mover.Result{Digest: "sha256:1", Size: 10, RawSize: 30, Facts: map[string]string{"role": "master"}},
		platformv1.OperationSucceeded
}

func planOf(t *testing.T, template map[string]string) (plan mover.Plan) {
	t.Helper()
	if err := json.Unmarshal([]byte(template[platformv1.MoverPlanAnnotation]), &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

// lost deletes a Backup with what is kept of it left where it is.
func lost(t *testing.T, b *platformv1.Backup) {
	t.Helper()
	if err := env.Client.Patch(t.Context(), b,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deletionPolicy":"Retain"}}`))); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	testkit.WaitGone(t, env.Client, b)
}

// killed runs engines that die after some writes, until a condition holds or there were as many of them.
func killed(t *testing.T, times int, holds func() bool) {
	t.Helper()
	for n := 1; n < times && !holds(); n++ {
		_, done, stop := run(t, 1+5*n%17)
		looks := time.NewTicker(50 * time.Millisecond)
		for until := time.Now().Add(10 * time.Second); done != nil && !holds() && time.Now().Before(until); {
			select {
			case <-done:
				done = nil
			case <-looks.C:
			}
		}
		looks.Stop()
		stop()
	}
}

// The day when everything is gone but what is kept: objects are made of all of it, page by page, whoever crashes
// meanwhile, each once, and an instance begins with one.
func TestImport(t *testing.T) {
	app, played := wayBack(t)
	s := &shelf{kept: map[string]mover.Record{}, page: 7}
	played.moves = s.plays
	_, _, stop := run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	inventoried(t, app.Namespace, func(i *platformv1.RepositoryInventory) bool {
		return i.Time != nil && i.Kept == 0 && i.Import == nil
	})
	b := backedUp(t, app, "nightly", "compression", "Gzip")
	plan := planOf(t, played.verbs(t, mover.VerbBackup)[0].Spec.Template.Annotations)
	if plan.Backup.Compression != mover.CompressionGzip || b.Status.Duration == nil {
		t.Errorf("its mover compresses by %q, and it took %v", plan.Backup.Compression, b.Status.Duration)
	}
	s.keep(t, b, plan)
	for i := range 40 {
		older := *b.DeepCopy()
		older.Status.Key = fmt.Sprintf("%s/%s/older-%04d-12345678", app.Namespace, app.Name, i)
		s.keep(t, &older, plan)
	}
	s.damaged = []string{app.Namespace + "/" + app.Name + "/older-0013-12345678"}
	noJobs(t, app.Namespace)
	lost(t, b)
	stop()

	r := &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "store"}}
	if err := env.Client.Patch(t.Context(), r,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"import":{}}}`))); err != nil {
		t.Fatal(err)
	}
	// The operator is killed in the midst of it, again and again.
	killed(t, 60, func() bool {
		refresh(t, r)
		i := r.Inventory()
		return i != nil && i.Import != nil && i.Import.Time != nil
	})
	run(t, -1)
	inventoried(t, app.Namespace, func(i *platformv1.RepositoryInventory) bool {
		return i.Import != nil && i.Import.Time != nil && i.Import.Imported == 40 && i.Import.Failed == 1 &&
			i.Import.Failures[0].Key == s.damaged[0] && i.Import.Failures[0].Reason == mover.ReasonDamaged
	})
	noJobs(t, app.Namespace)
	again := backupIs(t, app.Namespace, platformv1.ImportedBackupNameFor(b.Status.Key), platformv1.BackupCompleted)
	testkit.WaitForReady(t, env.Client, again)
	if i := again.Status; i.Key != b.Status.Key || i.Digest != b.Status.Digest || i.RawSize != 30 || i.Plugin == nil ||
		*i.Plugin != *b.Status.Plugin || i.Version != "7.0" || i.Facts["role"] != "master" ||
		!i.CompletionTime.Equal(b.Status.CompletionTime) || i.Source == nil || i.Source.Pod != b.Status.Source.Pod ||
		again.Spec.Compression != platformv1.CompressionGzip || again.Spec.DeletionPolicy != platformv1.BackupRetain {
		t.Errorf("it was %+v, and is %+v", b.Status, i)
	}
	var all platformv1.BackupList
	if err := env.Client.List(t.Context(), &all, client.InNamespace(app.Namespace)); err != nil || len(all.Items) != 40 {
		t.Errorf("there are %d Backups: %v", len(all.Items), err)
	}
	if err := env.Client.Patch(t.Context(), again,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"imported":{"digest":"sha256:2"}}}`))); err == nil {
		t.Error("what was imported can be changed")
	}
	refresh(t, r)
	if last := r.Status.Domains[0].LastBackupTime; last == nil || last.Before(b.Status.CompletionTime) {
		t.Errorf("the repository was last used at %v, and a Backup was whole at %v", last, b.Status.CompletionTime)
	}

	begun(t, begins(t, app.Namespace, "redis-again", again.Name), again)
	// Nothing is asked for any more: what was said of it goes.
	if err := env.Client.Patch(t.Context(), r,
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"import":null}}`))); err != nil {
		t.Fatal(err)
	}
	inventoried(t, app.Namespace, func(i *platformv1.RepositoryInventory) bool { return i.Import == nil })
}

// A store that dies is not called ready for long: a Backup that fails has it looked at again.
func TestRepositoryThatDies(t *testing.T) {
	app, played := kept(t)
	var dead sync.Map
	played.moves = func(p mover.Plan) (mover.Result, platformv1.OperationPhase) {
		if _, is := dead.Load("store"); is {
			return mover.Result{Reason: mover.ReasonUnreachable, Message: "the store does not answer"},
				platformv1.OperationFailed
		}
		return mover.Result{Digest: "sha256:1"}, platformv1.OperationSucceeded
	}
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionTrue, "")
	dead.Store("store", true)
	testkit.Eventually(t, "another second than that of the check", func(ctx context.Context) error {
		r := &platformv1.BackupRepository{}
		err := env.Client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: "store"}, r)
		if err == nil && time.Since(r.Status.Domains[0].LastChecked.Time) < 2*time.Second {
			return fmt.Errorf("it was checked at %s", r.Status.Domains[0].LastChecked)
		}
		return err
	})
	ends(t, operate(t, app, "badly", "Backup", nil, "repository", "store"), platformv1.OperationFailed)
	repositoryIs(t, app.Namespace, "store", metav1.ConditionFalse, "does not answer")
}
