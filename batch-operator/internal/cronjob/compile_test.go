// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// compiled is an Operation whose template is shown as a tree.
type compiled struct {
	Labels      map[string]string        `json:"labels"`
	Annotations map[string]string        `json:"annotations"`
	Spec        platformv1.OperationSpec `json:"spec"`
	Template    any                      `json:"template"`
}

// Each field of a task is in a file of testdata, and the engine takes the template that comes of it.
func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(cj batchv1.CronJob) (any, error) {
		_, text, err := compile(&cj, taskSource{}, enginetest.CheckTemplate)
		if err != nil {
			return nil, err
		}
		at := time.Date(2027, 1, 1, 2, 30, 0, 0, time.UTC)
		op := operationOf(&cj, text, creation{name: nameOf(&cj, at), time: at, key: "uid/2027-01-01T02:30:00Z"})
		out := compiled{Labels: op.Labels, Annotations: op.Annotations, Spec: op.Spec}
		out.Spec.Template = ""
		return out, yaml.Unmarshal([]byte(text), &out.Template)
	})
}

// The tasks of a Workflow have the time of the run, and what cannot be run is said with its place.
func TestCompileWorkflow(t *testing.T) {
	call := batchv1.WorkflowTask{Name: "call",
		HTTP: &batchv1.HTTPTask{URL: "https://example.com/${parameters.day}/${parameters.scheduledTime}"}}
	pod := batchv1.WorkflowTask{Name: "pod",
		Script: &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "example/tool:1"}, Source: "true"}}
	none := batchv1.WorkflowTask{Name: "wrong", HTTP: &batchv1.HTTPTask{URL: "https://example.com/${parameters.none}"}}
	approval := batchv1.WorkflowTask{Name: "ask", Approval: &batchv1.ApprovalTask{Reason: "?"}}
	for title, c := range map[string]struct {
		change func(cj *batchv1.CronJob, wf *batchv1.Workflow)
		want   string
	}{
		"runs": {func(*batchv1.CronJob, *batchv1.Workflow) {}, ""},
		"another account": {func(_ *batchv1.CronJob, wf *batchv1.Workflow) { wf.Spec.ServiceAccountName = "admin" },
			`has the serviceAccountName "admin", and the CronJob "worker"`},
		"approval": {func(_ *batchv1.CronJob, wf *batchv1.Workflow) { wf.Spec.Tasks = append(wf.Spec.Tasks, approval) },
			`Workflow "bill" has an approval`},
		"of another": {func(_ *batchv1.CronJob, wf *batchv1.Workflow) {
			wf.Spec.TemplateFrom = &batchv1.WorkflowTemplate{Name: "first"}
		}, `has its tasks from Workflow "first": name that one`},
		"exit codes": {func(cj *batchv1.CronJob, _ *batchv1.Workflow) {
			cj.Spec.Retry = &platformv1.OperationRetry{Limit: 1, ExitCodes: []int32{7}}
		}, ""},
		"exceptions of calls": {func(cj *batchv1.CronJob, wf *batchv1.Workflow) {
			cj.Spec.Retry = &platformv1.OperationRetry{Limit: 1, ExceptExitCodes: []int32{7}}
			wf.Spec.Tasks[0].Retry = &platformv1.OperationRetry{Limit: 1}
		}, `spec.retry.exceptExitCodes are those of containers, and Workflow "bill" has no task with a container`},
		"exit codes of calls": {func(cj *batchv1.CronJob, wf *batchv1.Workflow) {
			cj.Spec.Retry = &platformv1.OperationRetry{Limit: 1, ExitCodes: []int32{7}}
			wf.Spec.Tasks[0].Retry = &platformv1.OperationRetry{Limit: 1}
		}, `spec.retry.exitCodes are those of containers, and Workflow "bill" has no task with a container`},
		"no argument": {func(cj *batchv1.CronJob, _ *batchv1.Workflow) { cj.Spec.Task.Workflow.Arguments = nil },
			`parameter "day" has no default`},
		"no parameter": {func(_ *batchv1.CronJob, wf *batchv1.Workflow) { wf.Spec.Tasks[1] = none },
			`spec.task.workflow: Workflow "bill" cannot be run: spec.tasks[wrong].http.url`},
	} {
		t.Run(title, func(t *testing.T) {
			cj := newWorld(t, nil).cj
			cj.Spec.ServiceAccountName = "worker"
			cj.Spec.Task = batchv1.Task{Workflow: &batchv1.WorkflowRun{TemplateFrom: batchv1.WorkflowTemplate{Name: "bill"},
				Arguments: map[string]batchv1.Argument{"day": "1"}}}
			wf := &batchv1.Workflow{}
			wf.Name, wf.Spec.ServiceAccountName = "bill", "worker"
			wf.Spec.Parameters, wf.Spec.Tasks = []batchv1.WorkflowParameter{{Name: "day"}}, []batchv1.WorkflowTask{pod, call}
			c.change(cj, wf)
			_, text, err := compile(cj, taskSource{workflow: wf}, enginetest.CheckTemplate)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil || strings.Count(text, envTime) != 1 ||
				strings.Count(text, `"idempotencyKey":{"schema":"string"}`) != 1 {
				t.Errorf("the template is %s: %v", text, err)
			}
			op := operationOf(cj, text, creation{name: "x", time: begin, key: "k"})
			if p := op.Spec.Parameters; p["day"] != "1" || p[parameterKey] != "k" {
				t.Errorf("the parameters are %v", p)
			}
		})
	}
	cj := newWorld(t, nil).cj
	cj.Spec.Task = batchv1.Task{Workflow: &batchv1.WorkflowRun{TemplateFrom: batchv1.WorkflowTemplate{Name: "bill"}}}
	if _, _, err := compile(cj, taskSource{}, enginetest.CheckTemplate); err == nil ||
		err.Error() != `spec.task.workflow: there is no Workflow "bill" in this namespace` {
		t.Errorf("the error is %v", err)
	}
}

// The webhook refuses what the controller would refuse.
func TestJudge(t *testing.T) {
	w := newWorld(t, nil)
	s := operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate}
	if err := (Kind{}).Judge(w.cj, s); err != nil {
		t.Error(err)
	}
	w.cj.Spec.Task.HTTP.URL = "ftp://example.com"
	if err := (Kind{}).Judge(w.cj, s); err == nil ||
		err.Error() != "spec.task.http.url must begin with http:// or https://" {
		t.Errorf("the error is %v", err)
	}
}
