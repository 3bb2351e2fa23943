// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// wayBack is a bundle that restores what the method rdb backed up, and nothing of the method keys.
func wayBack() *plugin.Bundle {
	return &plugin.Bundle{Components: schema.Components{
		Components: []schema.Component{{Name: "redis", Backups: []schema.BackupMethod{
			{Name: "keys"}, {Name: "rdb", Restore: &schema.RestoreMethod{Folder: "/data"}},
			{Name: "objects", Objects: "Incremental", Restore: &schema.RestoreMethod{}},
			{Name: "dump", Restore: &schema.RestoreMethod{Folder: "/data", Versions: schema.VersionsLater}},
			{Name: "base", Restore: &schema.RestoreMethod{Folder: "/data", Target: &schema.TargetMethod{
				Parameters: map[string]schema.TargetParameter{
					"bucket": {Schema: `=~"^[a-z]+$" @allowed("small letters")`, Description: "where the log is"},
					"prefix": {Schema: "string", Optional: true}},
				Credentials: []schema.TargetCredential{{Name: "log", Description: "key of the account"},
					{Name: "ca", Optional: true}},
			}}},
		}}}}}
}

// later has a dump go into an instance of another version.
func later(version string) func(*platformv1.Application, *platformv1.Backup) {
	return func(app *platformv1.Application, b *platformv1.Backup) {
		app.Spec.Version, b.Spec.Method = version, "dump"
	}
}

func TestRestore(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(app *platformv1.Application, b *platformv1.Backup)
		absent        bool
		method        string
		refused, says string
		waits         string
	}{
		"whole":         {},
		"later version": {change: func(app *platformv1.Application, _ *platformv1.Backup) { app.Spec.Version = "7.2" }},
		"absent": {absent: true, waits: platformv1.ReasonBackupNotFound,
			says: `no Backup "nightly" in namespace "ns"`},
		"under way": {change: func(_ *platformv1.Application, b *platformv1.Backup) {
			b.Status.Phase = platformv1.BackupRunning
		}, waits: platformv1.ReasonBackupNotCompleted, says: "not complete yet"},
		"failed": {change: func(_ *platformv1.Application, b *platformv1.Backup) {
			b.Status.Phase = platformv1.BackupFailed
		}, refused: platformv1.ReasonRestoreRefused, says: "failed"},
		"going": {change: func(_ *platformv1.Application, b *platformv1.Backup) {
			b.DeletionTimestamp = new(metav1.Now())
		}, refused: platformv1.ReasonRestoreRefused, says: "being deleted"},
		"other plugin": {change: func(_ *platformv1.Application, b *platformv1.Backup) {
			b.Status.Plugin.Name = "postgresql"
		}, refused: platformv1.ReasonRestoreRefused, says: "it is of plugin postgresql, and this is an instance of redis"},
		"other major": {change: func(app *platformv1.Application, _ *platformv1.Backup) { app.Spec.Version = "8.0" },
			refused: platformv1.ReasonRestoreRefused, says: "keeps the major version"},
		"older minor": {change: func(_ *platformv1.Application, b *platformv1.Backup) { b.Status.Version = "7.4" },
			refused: platformv1.ReasonRestoreRefused, says: "which is older"},
		"later major": {change: later("8.0"), method: "dump"},
		"older major": {change: later("6.2"), refused: platformv1.ReasonRestoreRefused,
			says: "it is of version 7.0, and this is version 6.2, which is older: set version to 7.0 or a later one"},
		"dump to a time": {change: func(app *platformv1.Application, b *platformv1.Backup) {
			b.Spec.Method, app.Spec.RestoreFrom.Target = "dump", &platformv1.RestoreTarget{Time: "2026-02-03T05:00:00Z"}
		}, refused: platformv1.ReasonRestoreRefused, says: `reaches no point in time with method "dump": leave target out`},
		"no way back": {change: func(_ *platformv1.Application, b *platformv1.Backup) { b.Spec.Method = "keys" },
			refused: platformv1.ReasonRestoreRefused, says: "restores nothing"},
		"no method": {change: func(_ *platformv1.Application, b *platformv1.Backup) { b.Spec.Method = "magic" },
			refused: platformv1.ReasonRestoreRefused, says: `no backup method "magic"`},
		"no room": {change: func(_ *platformv1.Application, b *platformv1.Backup) { b.Status.RawSize = 1<<30 + 1 },
			refused: platformv1.ReasonRestoreRefused, says: "ask for more storage"},
		"there already": {change: func(app *platformv1.Application, b *platformv1.Backup) {
			app.Status.RestoredFrom, b.Status.Phase = &platformv1.RestoredFrom{}, platformv1.BackupFailed
		}},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly"}
			b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "uid"},
				Spec: platformv1.BackupSpec{Method: "rdb"}, Status: platformv1.BackupStatus{
					Phase: platformv1.BackupCompleted, Version: "7.0", RawSize: 1 << 30,
					Plugin: &platformv1.PluginReference{Name: "redis", Version: "1.0.0"}}}
			if test.change != nil {
				test.change(app, b)
			}
			f := Facts{State: plugin.State{Bundle: wayBack()}, Backup: b}
			if test.absent {
				f.Backup = nil
			}
			wanted := []platformv1.ComponentSpec{
				{Component: "redis", Replicas: 1, Storage: &platformv1.Storage{Size: resource.MustParse("1Gi")},
					Sets: []platformv1.ComponentSet{{Name: "main"}}}}
			refusals, waits := Restore(app, f, wanted)
			expect(t, render.Join(refusals), test.refused, test.says)
			expect(t, waits, test.waits, test.says)
			from := wanted[0].RestoreFrom
			if begins := test.refused == "" && test.waits == "" && app.Status.RestoredFrom == nil; begins != (from != nil) ||
				from != nil && !reflect.DeepEqual(*from,
					platformv1.ComponentRestore{Backup: "nightly", UID: "uid", Method: cmp.Or(test.method, "rdb")}) {
				t.Errorf("the component begins with %+v", from)
			}
		})
	}
}

// Objects are spread over all volumes of the instance, whatever sets it has.
func TestRestoreOfObjects(t *testing.T) {
	for name, test := range map[string]struct {
		size          int64
		refused, says string
	}{
		"there is room": {size: 8 << 30},
		"no room": {size: 8<<30 + 1, refused: platformv1.ReasonRestoreRefused,
			says: `the volumes of component "redis" have 8Gi: ask for more storage`},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly"}
			b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "uid"},
				Spec: platformv1.BackupSpec{Method: "objects"}, Status: platformv1.BackupStatus{
					Phase: platformv1.BackupCompleted, Version: "7.0", RawSize: test.size,
					Plugin: &platformv1.PluginReference{Name: "redis", Version: "1.0.0"},
					Source: &platformv1.BackupSource{Set: "main"}}}
			wanted := []platformv1.ComponentSpec{
				{Component: "redis", Replicas: 4, Storage: &platformv1.Storage{Size: resource.MustParse("1Gi")},
					Sets: []platformv1.ComponentSet{{Name: "a"}, {Name: "b"}}}}
			refusals, _ := Restore(app, Facts{State: plugin.State{Bundle: inSets()}, Backup: b}, wanted)
			expect(t, render.Join(refusals), test.refused, test.says)
			if from := wanted[0].RestoreFrom; (from != nil) != (test.refused == "") || from != nil && len(from.Sets) > 0 {
				t.Errorf("the component begins with %+v", from)
			}
		})
	}
}

// inSets is a bundle whose component has a part of the data in each of its sets.
func inSets() *plugin.Bundle {
	b := wayBack()
	b.Components.Components[0].Sets = &schema.Range{Default: 3, Min: 1, Max: 9}
	return b
}

// The sets that begin with the data are those that it is of.
func TestRestoreOfSets(t *testing.T) {
	sources := func(sizes ...int64) (all []platformv1.BackupSource) {
		for i, size := range sizes {
			all = append(all, platformv1.BackupSource{Set: []string{"0", "1", "2"}[i], RawSize: size})
		}
		return all
	}
	for name, test := range map[string]struct {
		bundle  *plugin.Bundle
		sources []platformv1.BackupSource
		sets    []string
		says    string
	}{
		"the same": {inSets(), sources(1<<30, 1<<20), []string{"1", "0"}, ""},
		"more sets": {inSets(), sources(1, 1), []string{"0", "1", "2"},
			`it has the data of 2 sets, and component "redis" is to have 3: ask for 2`},
		"fewer sets": {inSets(), sources(1, 1, 1), []string{"0", "1"}, "ask for 3"},
		"other names": {inSets(), sources(1, 1), []string{"0", "b"},
			"it has the data of the sets 0, 1, and component \"redis\" is to have 0, b"},
		"one set is too large":    {inSets(), sources(1, 1<<30+1), []string{"0", "1"}, "ask for more storage"},
		"of one part":             {inSets(), nil, []string{"0"}, "its data is in one part"},
		"into one part":           {wayBack(), sources(1, 1), []string{"main"}, "its data is in 2 parts, one for each set"},
		"of one set among others": {inSets(), sources(1), []string{"0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly"}
			b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "uid"},
				Spec: platformv1.BackupSpec{Method: "rdb"}, Status: platformv1.BackupStatus{
					Phase: platformv1.BackupCompleted, Version: "7.0", RawSize: 1 << 40, Sources: test.sources,
					Plugin: &platformv1.PluginReference{Name: "redis"}}}
			if test.sources == nil {
				b.Status.RawSize = 1
			}
			wanted := []platformv1.ComponentSpec{
				{Component: "redis", Replicas: 1, Storage: &platformv1.Storage{Size: resource.MustParse("1Gi")}}}
			for _, set := range test.sets {
				wanted[0].Sets = append(wanted[0].Sets, platformv1.ComponentSet{Name: set, Replicas: new(int32(1))})
			}
			refusals, _ := Restore(app, Facts{State: plugin.State{Bundle: test.bundle}, Backup: b}, wanted)
			if test.says != "" {
				expect(t, render.Join(refusals), platformv1.ReasonRestoreRefused, test.says)
				return
			}
			expect(t, render.Join(refusals), "", "")
			if from := wanted[0].RestoreFrom; from == nil || !slices.IsSorted(from.Sets) || len(from.Sets) != len(test.sets) {
				t.Fatalf("the component begins with %+v", from)
			}
			// While the data is on its way the sets stay; afterwards a new one is to begin without.
			f := Facts{Components: map[string]*platformv1.Component{"redis": {Spec: *wanted[0].DeepCopy()}}}
			keepRestore(app, f, wanted)
			wanted[0].Sets = append(wanted[0].Sets, platformv1.ComponentSet{Name: "9"})
			refusals, _ = Restore(app, f, wanted)
			expect(t, render.Join(refusals), platformv1.ReasonRestoreRefused, "keep these until the condition Restored is True")
			app.Status.RestoredFrom = &platformv1.RestoredFrom{Backup: "nightly"}
			keepRestore(app, f, wanted)
			refusals, _ = Restore(app, f, wanted)
			if expect(t, render.Join(refusals), "", ""); wanted[0].RestoreFrom != nil {
				t.Errorf("a later set begins with %+v", wanted[0].RestoreFrom)
			}
		})
	}
}

// A component keeps what it was made to begin with, and one without never gets anything.
func TestRestoreIsKept(t *testing.T) {
	from := &platformv1.ComponentRestore{Backup: "nightly", UID: "uid", Method: "rdb"}
	f := Facts{Components: map[string]*platformv1.Component{"redis": {Spec: platformv1.ComponentSpec{RestoreFrom: from}},
		"sentinel": {}}}
	wanted := []platformv1.ComponentSpec{{Component: "redis"}, {Component: "sentinel", RestoreFrom: from}}
	keepRestore(testApp(), f, wanted)
	if !reflect.DeepEqual(wanted[0].RestoreFrom, from) || wanted[1].RestoreFrom != nil {
		t.Errorf("they begin with %+v and %+v", wanted[0].RestoreFrom, wanted[1].RestoreFrom)
	}
	app := testApp()
	app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly"}
	if refusals, waits := Restore(app, f, wanted); len(refusals) > 0 || waits != nil {
		t.Errorf("once it is made, the Backup is asked for: %v, %v", refusals, waits)
	}
}

// What is wrong with a point in time is said before anything is made, and with what it can be.
func TestRestoreToAPointInTime(t *testing.T) {
	for name, test := range map[string]struct {
		change func(target *platformv1.RestoreTarget, b *platformv1.Backup)
		says   string
	}{
		"at once": {},
		"later": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Time = "2026-02-03T12:00:00.123456+01:00"
		}},
		"before": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Time = "2026-02-03T04:59:59.999999Z"
		}, says: "the Backup was complete at 2026-02-03T05:00:00Z: name an earlier Backup"},
		"no time": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Time = "2026-02-30T05:00:00Z"
		}, says: "which is no time"},
		"method without": {change: func(_ *platformv1.RestoreTarget, b *platformv1.Backup) { b.Spec.Method = "rdb" },
			says: `reaches no point in time with method "rdb": leave target out`},
		"parameter missing": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			delete(target.Parameters, "bucket")
		}, says: `parameter "bucket" is missing: where the log is`},
		"parameter unknown": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Parameters["colour"] = "red"
		}, says: `there is no parameter "colour": there are bucket, prefix`},
		"parameter wrong": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Parameters["bucket"] = "1"
		}, says: `parameter "bucket" `},
		"credential missing": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Credentials = nil
		}, says: `credential "log" is missing: key of the account`},
		"credential unknown": {change: func(target *platformv1.RestoreTarget, _ *platformv1.Backup) {
			target.Credentials[0].Name = "logs"
		}, says: `there is no credential "logs": there are log, ca`},
	} {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			target := &platformv1.RestoreTarget{Time: "2026-02-03T05:00:00Z",
				Parameters:  map[string]platformv1.ParameterValue{"bucket": "log"},
				Credentials: []platformv1.Credential{{Name: "log"}}}
			app.Spec.RestoreFrom = &platformv1.RestoreFrom{Backup: "nightly", Target: target}
			b := &platformv1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "uid"},
				Spec: platformv1.BackupSpec{Method: "base"}, Status: platformv1.BackupStatus{
					Phase: platformv1.BackupCompleted, Version: "7.0", RawSize: 1 << 30,
					Plugin:         &platformv1.PluginReference{Name: "redis", Version: "1.0.0"},
					CompletionTime: new(metav1.Date(2026, 2, 3, 5, 0, 0, 0, time.UTC))}}
			if test.change != nil {
				test.change(target, b)
			}
			wanted := []platformv1.ComponentSpec{
				{Component: "redis", Replicas: 1, Storage: &platformv1.Storage{Size: resource.MustParse("1Gi")},
					Sets: []platformv1.ComponentSet{{Name: "main"}}}}
			refusals, waits := Restore(app, Facts{State: plugin.State{Bundle: wayBack()}, Backup: b}, wanted)
			reason := ""
			if test.says != "" {
				reason = platformv1.ReasonRestoreRefused
			}
			expect(t, render.Join(refusals), reason, test.says)
			expect(t, waits, "", "")
			if from := wanted[0].RestoreFrom; (from != nil) != (reason == "") || from != nil &&
				!equality.Semantic.DeepEqual(from.Target, target) {
				t.Errorf("the component begins with %+v", from)
			}
		})
	}
}
