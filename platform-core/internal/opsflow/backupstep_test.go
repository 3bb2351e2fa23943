// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// backing is an Operation of the engine's template, and what it acts on.
func backing(parameters map[string]platformv1.ParameterValue, methods ...BackupMethod) (*platformv1.Operation, Facts) {
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "op-uid"},
		Spec: platformv1.OperationSpec{TemplateRef: "Backup", Parameters: parameters}}
	facts := Facts{Now: epoch, Template: Defaults()["Backup"], Target: `Redis "a"`, BackupMethods: methods,
		Answers: map[string]*Answer{}}
	facts.Parameters = ParametersInForce(op.Spec, facts.Template)
	return op, facts
}

var (
	rdb  = BackupMethod{Name: "rdb", Component: "redis", Default: true}
	dump = BackupMethod{Name: "keys", Component: "redis"}
	into = map[string]platformv1.ParameterValue{"repository": "store"}
)

// reconcileWith takes a decision, with how the Backup is; nil for one that is absent.
func reconcileWith(op *platformv1.Operation, facts Facts, backup *platformv1.Backup) Decision {
	facts.Answers = map[string]*Answer{}
	d := Next(op, facts)
	for d.Effect != nil {
		op.Status = d.Status
		facts.Answers[d.Effect.Key] = &Answer{Backup: backup}
		d = Next(op, facts)
	}
	op.Status = d.Status
	return d
}

func standing(phase platformv1.BackupPhase, message string) *platformv1.Backup {
	return &platformv1.Backup{Status: platformv1.BackupStatus{Phase: phase, Message: message, Digest: "sha256:1", Size: 7,
		SourcePods: "p, q"}}
}

func TestBackupOfAnOperation(t *testing.T) {
	op, facts := backing(into, rdb, dump)
	d := Start(op, "redis-a", facts, nil)
	if d.Effect == nil || d.Effect.Backup == nil {
		t.Fatalf("it begins with %+v", d)
	}
	wanted := *d.Effect.Backup
	if want := (Backup{Verb: BackupMake, Name: "nightly-backup", Repository: "store", Method: "rdb",
		DeletionPolicy: "Delete", Timeout: DefaultTimeout}); wanted != want {
		t.Errorf("it makes %+v, want %+v", wanted, want)
	}
	op.Status = d.Status
	d = reconcileWith(op, facts, standing(platformv1.BackupRunning, "half of it"))
	if d.Status.Phase != platformv1.OperationRunning || !strings.Contains(d.Outcome.Message(), "half of it") ||
		d.Outcome.After() < time.Minute {
		t.Errorf("it waits as %+v", d)
	}
	d = reconcileWith(op, facts, standing(platformv1.BackupCompleted, ""))
	if d.Status.Phase != platformv1.OperationSucceeded {
		t.Errorf("it ends as %+v", d.Status)
	}
	outputs := d.Status.Steps[0].Outputs
	if outputs[OutputBackup] != "nightly-backup" || outputs[OutputDigest] != "sha256:1" || outputs[OutputSize] != "7" ||
		outputs[OutputSource] != "p, q" {
		t.Errorf("it says %v", outputs)
	}
}

func TestBackupEndsBadly(t *testing.T) {
	for name, tc := range map[string]struct {
		after *platformv1.Backup
		error string
	}{
		"it failed":       {standing(platformv1.BackupFailed, "no room"), "no room"},
		"somebody did it": {nil, "somebody deleted it"},
	} {
		op, facts := backing(into, rdb)
		op.Status = Start(op, "redis-a", facts, nil).Status
		reconcileWith(op, facts, standing(platformv1.BackupRunning, ""))
		if d := reconcileWith(op, facts, tc.after); d.Status.Phase != platformv1.OperationFailed ||
			!strings.Contains(d.Status.Error, tc.error) {
			t.Errorf("%s: it is %s: %s", name, d.Status.Phase, d.Status.Error)
		}
	}
}

// A run that is cancelled, or takes too long, has ended when its Backup has.
func TestBackupIsWithdrawn(t *testing.T) {
	for name, end := range map[string]func(*platformv1.Operation, *Facts){
		"cancelled": func(op *platformv1.Operation, _ *Facts) { op.Spec.Cancel = true },
		"late":      func(_ *platformv1.Operation, facts *Facts) { facts.Now = epoch.Add(DefaultTimeout) },
	} {
		op, facts := backing(into, rdb)
		op.Status = Start(op, "redis-a", facts, nil).Status
		reconcileWith(op, facts, standing(platformv1.BackupRunning, ""))
		end(op, &facts)
		d := reconcileWith(op, facts, standing(platformv1.BackupRunning, ""))
		if Finished(op) || !strings.Contains(d.Outcome.Message(), "to end") {
			t.Errorf("%s: it is %s: %s", name, d.Status.Phase, d.Outcome.Message())
		}
		if reconcileWith(op, facts, standing(platformv1.BackupFailed, "it was cancelled")); !Finished(op) {
			t.Errorf("%s: it goes on: %+v", name, op.Status)
		}
	}
}

func TestBackupMethodThatIsMeant(t *testing.T) {
	for name, tc := range map[string]struct {
		methods     []BackupMethod
		named, want string
		why         string
	}{
		"the default":  {[]BackupMethod{dump, rdb}, "", "rdb", ""},
		"the only one": {[]BackupMethod{dump}, "", "keys", ""},
		"named":        {[]BackupMethod{rdb, dump}, "keys", "keys", ""},
		"unknown":      {[]BackupMethod{rdb, dump}, "dump", "", `it has: "keys", "rdb"`},
		"none":         {nil, "", "", "declares no method"},
	} {
		_, facts := backing(into, tc.methods...)
		method, why := facts.backupMethod(tc.named)
		if method.Name != tc.want || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
			t.Errorf("%s: %q, %q", name, method.Name, why)
		}
	}
	op, facts := backing(map[string]platformv1.ParameterValue{"repository": "store", "method": "dump"}, rdb)
	if d := Start(op, "redis-a", facts, nil); d.Effect != nil || d.Status.Phase != platformv1.OperationFailed ||
		!strings.Contains(d.Status.Error, `no backup method "dump"`) {
		t.Errorf("it begins as %+v", d)
	}
	op, facts = backing(into, rdb)
	op.Spec.DryRun = true
	if d := Start(op, "redis-a", facts, nil); len(d.Status.Plan) != 1 ||
		!strings.Contains(d.Status.Plan[0], `"store" by the method "rdb"`) {
		t.Errorf("it would do %v", d.Status.Plan)
	}
}

// What is to be deleted some day is said as it is to be, or not at all.
func TestRetentionOfABackup(t *testing.T) {
	for name, tc := range map[string]struct {
		count, age, policy platformv1.ParameterValue
		error              string
	}{
		"both":          {"7", "720h", "Delete", ""},
		"it stays":      {"7", "", "Retain", "leave out one or the other"},
		"a moment":      {"", "59s", "Delete", "a minute at least"},
		"too many days": {"", "9999999999h", "Delete", "a minute at least"},
	} {
		op, facts := backing(map[string]platformv1.ParameterValue{"repository": "store", "maxCount": tc.count,
			"maxAge": tc.age, "deletionPolicy": tc.policy}, rdb)
		d := Start(op, "redis-a", facts, nil)
		if tc.error != "" {
			if d.Status.Phase != platformv1.OperationFailed || !strings.Contains(d.Status.Error, tc.error) {
				t.Errorf("%s: it is %s: %s", name, d.Status.Phase, d.Status.Error)
			}
			continue
		}
		if d.Effect == nil || d.Effect.Backup == nil || *d.Effect.Backup.Retention.MaxCount != 7 ||
			d.Effect.Backup.Retention.MaxAge.Duration != 720*time.Hour {
			t.Errorf("%s: it begins with %+v", name, d.Effect)
		}
	}
}

// Where the data goes is for the method to say: what streams needs a repository, and what is a snapshot has none.
func TestWhereABackupIsKept(t *testing.T) {
	snapshot := BackupMethod{Name: "snapshot", Component: "redis", Type: platformv1.BackupSnapshot}
	for name, tc := range map[string]struct {
		parameters map[string]platformv1.ParameterValue
		says       string
	}{
		"as VolumeSnapshots": {map[string]platformv1.ParameterValue{"method": "snapshot"}, ""},
		"a stream nowhere": {map[string]platformv1.ParameterValue{"method": "rdb"},
			`method "rdb" keeps its data in a BackupRepository: name one in parameter "repository"`},
		"the default nowhere": {nil, `method "rdb" keeps its data in a BackupRepository`},
		"snapshots in a repository": {map[string]platformv1.ParameterValue{"method": "snapshot", "repository": "store"},
			`in no BackupRepository: leave parameter "repository" out`},
		"snapshots that are made less": {map[string]platformv1.ParameterValue{"method": "snapshot", "compression": "Gzip"},
			`leave parameter "compression" out`},
	} {
		op, facts := backing(tc.parameters, rdb, snapshot)
		d := Start(op, "redis-a", facts, nil)
		if tc.says != "" {
			if d.Status.Phase != platformv1.OperationFailed || !strings.Contains(d.Status.Error, tc.says) {
				t.Errorf("%s: it is %s: %s", name, d.Status.Phase, d.Status.Error)
			}
			continue
		}
		if d.Effect == nil || d.Effect.Backup == nil || d.Effect.Backup.Type != platformv1.BackupSnapshot ||
			d.Effect.Backup.Repository != "" {
			t.Errorf("%s: it begins with %+v, %s", name, d.Effect, d.Status.Error)
		}
		op.Spec.DryRun = true
		if d := Start(op, "redis-a", facts, nil); len(d.Status.Plan) != 1 ||
			!strings.Contains(d.Status.Plan[0], `as VolumeSnapshots by the method "snapshot"`) {
			t.Errorf("%s: it would do %v", name, d.Status.Plan)
		}
	}
}
