// SPDX-License-Identifier: Apache-2.0

package opsflow_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
)

const handingOn = `
name: HandOn
artifacts: {repository: store, maxSize: 2Mi}
steps:
  - name: make
    needs: []
    onFailure: Continue
    script: {image: 'example/tool:1', source: make, outputs: {rows: '=~"^[0-9]+$"'}}
    artifacts: [{name: report, path: /out/report.csv}, {name: log, path: /out/log}]
  - name: use
    needs: [make]
    container: {image: 'example/tool:1'}
    inputs: [{from: make.report, path: /in/report.csv}]
`

var kept = []mover.KeptArtifact{{Name: "report", SHA256: strings.Repeat("a", 64), Size: 7},
	{Name: "log", SHA256: strings.Repeat("b", 64)}}

// handOn is an Operation with that template, and what it is decided on.
func handOn(t *testing.T) (*platformv1.Operation, opsflow.Facts) {
	t.Helper()
	op := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "run", UID: "u-1"},
		Spec: platformv1.OperationSpec{Template: handingOn, ServiceAccountName: "worker"}}
	template, refusal := opsflow.InlineTemplate(op.Spec)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return op, opsflow.Facts{Now: time.Unix(1000, 0), Template: template, Answers: map[string]*opsflow.Answer{}}
}

// begun is the task that an Operation begins with, once its Job has been made and has come to something.
func begun(t *testing.T, op *platformv1.Operation, facts opsflow.Facts, earlier *platformv1.Operation,
	job opsflow.JobState) (*opsflow.Task, opsflow.Decision) {
	t.Helper()
	d := opsflow.Start(op, "", facts, earlier)
	if d.Effect == nil || d.Effect.Job == nil {
		t.Fatalf("it begins with %+v", d)
	}
	op.Status = d.Status
	facts.Answers[d.Effect.Key] = &opsflow.Answer{Job: job}
	return d.Effect.Job.Task, opsflow.Next(op, facts)
}

func TestArtifactOfAStepIsTheInputOfAnother(t *testing.T) {
	op, facts := handOn(t)
	task, d := begun(t, op, facts, nil, opsflow.JobState{Phase: platformv1.OperationSucceeded, Message: "rows=3\n",
		Kept: kept, Location: "https://s3/b/_artifacts/shop/u-1"})
	want := &opsflow.TaskArtifacts{Repository: "store", Folders: []string{"/out"},
		Keep: &mover.Artifacts{Folder: "_artifacts/shop/u-1", MaxBytes: 2 << 20, Files: []mover.ArtifactFile{
			{Name: "report", Path: "/out/report.csv"}, {Name: "log", Path: "/out/log"}}}}
	if !reflect.DeepEqual(task.Artifacts, want) {
		t.Errorf("the first task has %+v", task.Artifacts)
	}
	record := d.Status.Steps[0].Artifacts
	if len(record) != 2 || record[0] != (platformv1.StepArtifact{Name: "report", Digest: "sha256:" + kept[0].SHA256,
		Size: 7, Location: "https://s3/b/_artifacts/shop/u-1/" + kept[0].SHA256}) {
		t.Errorf("the record is %+v", record)
	}
	want = &opsflow.TaskArtifacts{Repository: "store", Folders: []string{"/in"},
		Fetch: &mover.Artifacts{Folder: "_artifacts/shop/u-1", Files: []mover.ArtifactFile{
			{Name: "make.report", Path: "/in/report.csv", SHA256: kept[0].SHA256, Size: 7}}}}
	if d.Effect == nil || d.Effect.Job == nil || !reflect.DeepEqual(d.Effect.Job.Task.Artifacts, want) {
		t.Errorf("what follows is %+v", d.Effect)
	}
}

func TestStepFailsWithoutItsArtifacts(t *testing.T) {
	for title, c := range map[string]struct {
		job  opsflow.JobState
		want string
	}{
		"not kept": {opsflow.JobState{Phase: platformv1.OperationSucceeded, Message: "rows=3", Kept: kept[:1]},
			`nothing is known of artifact "log"`},
		"failed": {opsflow.JobState{Phase: platformv1.OperationFailed, Message: "exit code 3"},
			`step "use" takes artifact "report" of step "make", which is Failed and has handed on none`},
	} {
		op, facts := handOn(t)
		_, d := begun(t, op, facts, nil, c.job)
		if said := d.Status.Steps[0].Message + d.Status.Error; !strings.Contains(said, c.want) {
			t.Errorf("%s: it says %q", title, said)
		}
	}
}

// A run that tries another one again has the files of the steps that it takes over.
func TestRetryGoesOnInTheFolderOfTheEarlierRun(t *testing.T) {
	op, facts := handOn(t)
	_, d := begun(t, op, facts, nil, opsflow.JobState{Phase: platformv1.OperationSucceeded, Message: "rows=3", Kept: kept})
	op.Status = d.Status
	op.Status.Phase, op.Status.Steps[1].Phase = platformv1.OperationFailed, platformv1.OperationFailed
	again, facts := handOn(t)
	again.UID, again.Name, again.Spec.RetryOf = "u-2", "again", op.Name
	task, _ := begun(t, again, facts, op, opsflow.JobState{})
	if again.Status.Artifacts.Folder != "_artifacts/shop/u-1" || task.Step != "use" ||
		task.Artifacts.Fetch.Folder != "_artifacts/shop/u-1" || task.Artifacts.Fetch.Files[0].SHA256 != kept[0].SHA256 {
		t.Errorf("it goes on with %+v in %+v", task, again.Status.Artifacts)
	}
}

func TestDeletedRunHasFailed(t *testing.T) {
	op, facts := handOn(t)
	op.Status = opsflow.Start(op, "", facts, nil).Status
	if d := opsflow.Delete(op, facts.Now); d.Status.Phase != platformv1.OperationFailed || d.Effect != nil ||
		d.Status.Artifacts == nil {
		t.Errorf("it ends as %+v", d)
	}
}
