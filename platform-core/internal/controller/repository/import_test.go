// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/jobstate"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// importing is a repository that is to import.
func importing() *platformv1.BackupRepository {
	return &platformv1.BackupRepository{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "store", UID: "uid"},
		Spec: platformv1.BackupRepositorySpec{Import: &platformv1.BackupImport{}}}
}

func TestRecall(t *testing.T) {
	at := metav1.NewTime(epoch)
	under, over := &platformv1.RepositoryImport{After: "shop/a/b-1"}, &platformv1.RepositoryImport{Time: &at}
	failed := &platformv1.RepositoryImport{Tried: &at, Message: "no answer"}
	running, read := check(platformv1.OperationRunning, "", 0), check(platformv1.OperationSucceeded, "{}", 0)
	for name, tc := range map[string]struct {
		verb      verb
		ready     metav1.ConditionStatus
		inventory *platformv1.RepositoryInventory
		had       *platformv1.RepositoryImport
		wanted    bool
		job       *jobstate.State
		after     time.Duration
		want      verb
		forgets   bool
		again     time.Duration
	}{
		"not asked for":          {"", metav1.ConditionTrue, inventory(0, nil), nil, false, nil, 0, "", false, 0},
		"before there is a list": {"", metav1.ConditionTrue, nil, nil, true, nil, 0, "", false, 0},
		"a list that came to nought": {"", metav1.ConditionTrue,
			inventory(0, func(i *platformv1.RepositoryInventory) { i.Time = nil }), nil, true, nil, 0, "", false, 0},
		"the list first": {makeListing, metav1.ConditionTrue, inventory(0, nil), nil, true, nil, 0, makeListing,
			false, 0},
		"not ready":            {"", metav1.ConditionFalse, inventory(0, nil), nil, true, nil, 0, "", false, 0},
		"the first page":       {"", metav1.ConditionTrue, inventory(0, nil), nil, true, nil, 0, makeRecall, false, 0},
		"the next page":        {"", metav1.ConditionTrue, inventory(0, nil), under, true, nil, 0, makeRecall, false, 0},
		"a page is being read": {"", metav1.ConditionTrue, inventory(0, nil), under, true, running, 0, "", false, 0},
		"a page was read":      {"", metav1.ConditionTrue, inventory(0, nil), under, true, read, 0, takeRecall, false, 0},
		"all were": {"", metav1.ConditionTrue, inventory(0, nil), over, true, nil, time.Hour, "", false,
			time.Hour},
		"all were, and a Job left": {"", metav1.ConditionTrue, inventory(0, nil), over, true, read, 0, removeRecall, false,
			0},
		"it failed a moment ago": {"", metav1.ConditionTrue, inventory(0, nil), failed, true, nil, time.Hour, "", false,
			retry - 2*time.Second},
		"nobody wants it any more": {"", metav1.ConditionTrue, inventory(0, nil), under, false, running, 0, removeRecall,
			false, 0},
		"it is forgotten": {"", metav1.ConditionTrue, inventory(0, nil), over, false, nil, 0, "", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := importing()
			if !tc.wanted {
				r.Spec.Import = nil
			}
			if tc.inventory != nil {
				tc.inventory.Import = tc.had
			}
			d := recall(decision{verb: tc.verb, after: tc.after,
				state: platformv1.RepositoryState{Ready: tc.ready, Inventory: tc.inventory}}, r,
				facts{now: epoch.Add(2 * time.Second), recall: tc.job})
			forgot := tc.inventory != nil && tc.inventory.Import != nil && d.state.Inventory.Import == nil
			if d.verb != tc.want || d.after != tc.again || forgot != tc.forgets {
				t.Errorf("it does %q, looks again after %s, forgets: %v", d.verb, d.after, forgot)
			}
			if tc.inventory != nil && tc.inventory.Import != tc.had {
				t.Error("what was before has been changed")
			}
		})
	}
	if d := recall(decision{state: platformv1.RepositoryState{Ready: metav1.ConditionTrue,
		Inventory: inventory(0, func(i *platformv1.RepositoryInventory) { i.Import = failed })}}, importing(),
		facts{now: epoch.Add(retry)}); d.verb != makeRecall {
		t.Errorf("five minutes after a failure it does %q", d.verb)
	}
}

// kept is a record as a mover tells it.
func kept(change func(*mover.Record)) *mover.Record {
	record := &mover.Record{Key: "shop/redis-a/nightly-01234567", Digest: "sha256:1", Size: 10, RawSize: 30,
		Facts: map[string]string{"role": "master"}, Compression: mover.CompressionZstd,
		StartTime: epoch, EndTime: epoch.Add(90*time.Second + 10*time.Millisecond)}
	record.Origin = mover.Origin{Backup: "nightly", Domain: "database", Method: "rdb", Version: "7.0",
		Plugin: json.RawMessage(`{"name":"redis","version":"1.0.0","digest":"sha256:2"}`),
		Source: json.RawMessage(`{"pod":"redis-a-redis-main-1","component":"redis","set":"main","role":"replica"}`)}
	record.Origin.Application.Namespace, record.Origin.Application.Name = "shop", "redis-a"
	if change != nil {
		change(record)
	}
	return record
}

func TestRemade(t *testing.T) {
	r := importing()
	b, failure := remade(r, kept(nil))
	if failure != "" {
		t.Fatal(failure)
	}
	i := b.Spec.Imported
	if b.Namespace != "shop" || b.Name != "nightly-01234567" || b.Labels[platformv1.DomainLabel] != "database" ||
		b.Spec.ApplicationRef.Name != "redis-a" || b.Spec.Method != "rdb" ||
		b.Spec.DeletionPolicy != platformv1.BackupRetain || b.Spec.Retention != nil ||
		!slices.Equal(b.Finalizers, []string{platformv1.BackupFinalizer}) {
		t.Errorf("it is %+v", b)
	}
	if i.Key != "shop/redis-a/nightly-01234567" ||
		i.Plugin != (platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:2"}) || i.Version != "7.0" ||
		i.Source.Role != "replica" ||
		!i.CompletionTime.Equal(new(metav1.NewTime(epoch.Add(91*time.Second)))) || i.Facts["role"] != "master" {
		t.Errorf("what was imported is %+v", i)
	}
	r.Spec.Import = &platformv1.BackupImport{DeletionPolicy: platformv1.BackupDelete,
		Retention: &platformv1.BackupRetention{MaxCount: new(int32(3))}}
	b, failure = remade(r, kept(func(record *mover.Record) {
		record.Origin.Schedule, record.Compression = "nightly", mover.CompressionGzip
		record.Streams, record.Origin.Source = map[string]int64{"0": 4, "1": 5}, nil
		record.Origin.Sources = json.RawMessage(
			`[{"pod":"c-0","component":"redis","set":"0"},{"pod":"c-1","component":"redis","set":"1"}]`)
	}))
	if failure != "" || b.Labels[platformv1.ScheduleLabel] != "nightly" || *b.Spec.Retention.MaxCount != 3 ||
		b.Spec.DeletionPolicy != platformv1.BackupDelete || b.Spec.Compression != platformv1.CompressionGzip {
		t.Fatalf("it is %+v: %s", b, failure)
	}
	if s := b.Spec.Imported.Sources; len(s) != 2 || s[0].RawSize != 4 || s[1].RawSize != 5 {
		t.Errorf("its sources are %+v", s)
	}
	for name, tc := range map[string]struct {
		change func(*mover.Record)
		says   string
	}{
		"of another namespace": {func(r *mover.Record) { r.Origin.Application.Namespace = "store" },
			"its folder says something else"},
		"of another instance": {func(r *mover.Record) { r.Origin.Application.Name = "redis-b" },
			"its folder says something else"},
		"no domain": {func(r *mover.Record) { r.Origin.Domain = "" }, `no plugin "redis" version "1.0.0"`},
		"no plugin": {func(r *mover.Record) { r.Origin.Plugin = nil }, "by which plugin and method"},
		"not our metadata": {func(r *mover.Record) { r.Origin.Plugin = json.RawMessage(`"redis"`) },
			"the plugin of its metadata cannot be read"},
		"sets without sources": {func(r *mover.Record) { r.Streams = map[string]int64{"0": 1} }, "the data of 1 sets"},
		"no name": {func(r *mover.Record) { r.Key = "shop/redis-a/Nightly_1" },
			"cannot be the name of a Backup"},
		"no label": {func(r *mover.Record) { r.Origin.Schedule = "each night" }, "cannot be the label"},
	} {
		if b, failure := remade(r, kept(tc.change)); !strings.Contains(failure, tc.says) {
			t.Errorf("%s: it says %q of %+v", name, failure, b)
		}
	}
}

// A page takes what it has from the orphans, and the next one goes on after it.
func TestTaken(t *testing.T) {
	of := func(key string) platformv1.Backup {
		return platformv1.Backup{Spec: platformv1.BackupSpec{Imported: &platformv1.ImportedBackup{Key: key}}}
	}
	i := inventory(0, func(i *platformv1.RepositoryInventory) {
		i.Orphans, i.OrphanKeys = 4, []string{"shop/a/a-1", "shop/a/b-2", "shop/a/c-3"}
		i.Import = &platformv1.RepositoryImport{}
	})
	page := &mover.Recall{Records: []mover.Record{{Key: "shop/a/a-1"}, {Key: "shop/a/b-2"}},
		Failures: []mover.Failure{{Key: "shop/a/c-3", Reason: mover.ReasonDamaged, Message: "a part is missing"}},
		Last:     "shop/a/c-3", Left: 1}
	taken(i, page, []platformv1.Backup{of("shop/a/a-1"), of("shop/a/b-2"), of("shop/a/0-0")})
	want := &platformv1.RepositoryImport{After: "shop/a/c-3", Imported: 3, Failed: 1,
		Failures: []platformv1.ImportFailure{{Key: "shop/a/c-3", Reason: "BackupDamaged", Message: "a part is missing"}}}
	if i.Orphans != 2 || !slices.Equal(i.OrphanKeys, []string{"shop/a/c-3"}) ||
		!equality.Semantic.DeepEqual(i.Import, want) {
		t.Errorf("it has come to %+v, %+v", i, i.Import)
	}
}

// What is in the folder of a Backup that was made while a page was read is its own: a Backup that is made of it once
// more would take the data along when it is deleted.
func TestWhatHasABackupIsNotImported(t *testing.T) {
	kinds := testkit.Scheme(t, platformv1.AddToScheme, batchv1.AddToScheme)
	r, since := importing(), kept(nil)
	orphan := kept(func(record *mover.Record) { record.Key = "shop/redis-a/earlier-89abcdef" })
	backup := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly",
		UID: "01234567-0000-0000-0000-000000000000"}, Spec: platformv1.BackupSpec{
		ApplicationRef: platformv1.ApplicationReference{Name: "redis-a"},
		RepositoryRef:  platformv1.RepositoryReference{Name: r.Name}}}
	packed, err := (&mover.Recall{Records: []mover.Record{*orphan, *since}, Last: since.Key}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(mover.Result{Recall: packed})
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(backup).Build()
	c := &Controller{client: api, live: api}
	after, err := c.takeRecall(t.Context(), r, inventory(0, nil),
		facts{now: epoch, recall: check(platformv1.OperationSucceeded, string(said), 0)})
	if err != nil {
		t.Fatal(err)
	}
	var all platformv1.BackupList
	if err := api.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range all.Items {
		names = append(names, all.Items[i].Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"earlier-89abcdef", "nightly"}) {
		t.Errorf("there are %v", names)
	}
	if after.Import.Imported != 1 || after.Import.Failed != 0 || after.Import.After != since.Key {
		t.Errorf("it has come to %+v", after.Import)
	}
}

// What was found ready is looked at again when something spoke against it, and with each inventory; and else never.
func TestStale(t *testing.T) {
	const hour = time.Hour
	for name, tc := range map[string]struct {
		facts facts
		want  bool
	}{
		"nothing":                         {facts{}, false},
		"an inventory a moment ago":       {facts{latest: inventory(0, nil), interval: 2 * hour}, false},
		"one that is due":                 {facts{latest: inventory(0, nil), interval: 30 * time.Minute}, true},
		"one that is due and checked for": {facts{latest: inventory(-hour, nil), interval: 30 * time.Minute}, false},
		"one that is being taken": {
			facts{latest: inventory(0, nil), interval: 30 * time.Minute, listing: check(platformv1.OperationRunning, "", 0)},
			false},
		"one that is for once":        {facts{latest: inventory(0, nil)}, false},
		"one that failed since":       {facts{latest: inventory(time.Minute, failing), interval: 2 * hour}, true},
		"one that failed before":      {facts{latest: inventory(-time.Second, failing), interval: 2 * hour}, false},
		"a Backup that failed since":  {facts{doubted: epoch.Add(time.Second)}, true},
		"a Backup that failed before": {facts{doubted: epoch}, false},
	} {
		tc.facts.now = epoch.Add(hour)
		if name == "one that failed before" {
			tc.facts.now = epoch.Add(time.Minute)
		}
		if got := stale(epoch, tc.facts); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	day := metav1.NewTime(epoch.Add(24 * hour))
	if d := used(decision{}, &platformv1.RepositoryState{LastBackupTime: &day},
		facts{used: epoch}); !d.state.LastBackupTime.Equal(&day) {
		t.Errorf("a Backup that is gone takes the last use to %v", d.state.LastBackupTime)
	}
}
