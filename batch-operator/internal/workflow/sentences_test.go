// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/taskgraph"
)

// The webhook refuses what the controller would refuse, where one object suffices to tell. The rest is told once the
// controller has read what it names.
func TestJudge(t *testing.T) {
	const call = "http: {url: 'http://x'}"
	for title, c := range map[string]struct{ spec, want string }{
		"fine": {"tasks: [{name: a, " + call + "}]", ""},
		"cycle": {"tasks: [{name: a, dependsOn: [{name: b}], " + call + "}, {name: b, dependsOn: [{name: a}], " + call +
			"}]", "spec.tasks: tasks depend on each other in a cycle: a depends on b depends on a"},
		"output": {"tasks: [{name: a, when: 'tasks.b.outputs.c == \"\"', " + call + "}]",
			"spec.tasks[a].when is not a valid expression"},
		"argument":             {"arguments: {p: x}\ntasks: [{name: a, " + call + "}]", "spec.arguments[p]"},
		"argument that lacks":  {"parameters: [{name: p}]\ntasks: [{name: a, " + call + "}]", "spec.arguments: parameter"},
		"template without one": {"templateOnly: true\nparameters: [{name: p}]\ntasks: [{name: a, " + call + "}]", ""},
		"template": {"templateOnly: true\ntasks: [{name: a, http: {url: 'x'}}]",
			"spec.tasks[a].http.url must begin with http:// or https://"},
		"from another": {"templateFrom: {name: none}", ""},
		"nested in it": {"tasks: [{name: a, workflow: {templateFrom: {name: none}}}]", ""},
	} {
		t.Run(title, func(t *testing.T) {
			wf := &batchv1.Workflow{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &wf.Spec); err != nil {
				t.Fatal(err)
			}
			err := (Kind{}).Judge(wf, operator.ControllerSettings{CheckTemplate: enginetest.CheckTemplate})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one that begins with %q", err, c.want)
			}
		})
	}
}

// What a Workflow has from others stalls it with a sentence, and begins nothing.
func TestWhatOthersLackIsSaid(t *testing.T) {
	named := func(name string, change func(*batchv1.WorkflowSpec)) *batchv1.Workflow {
		wf := simple()
		wf.Name, wf.Spec.TemplateOnly = name, true
		change(&wf.Spec)
		return wf
	}
	asks := named("asks", func(s *batchv1.WorkflowSpec) {
		s.Tasks = []batchv1.WorkflowTask{{Name: "ask", Approval: &batchv1.ApprovalTask{Reason: "?"}}}
	})
	other := named("other", func(s *batchv1.WorkflowSpec) {
		s.Tasks, s.TemplateFrom = nil, &batchv1.WorkflowTemplate{Name: "first"}
	})
	for title, c := range map[string]struct {
		template, nested *batchv1.Workflow
		want             string
	}{
		"no template": {nil, nil, `spec.templateFrom: there is no Workflow "daily" in this namespace`},
		"one of a template": {other, nil,
			`spec.templateFrom: Workflow "daily" has its tasks from Workflow "first": name that one`},
		"an approval within": {nil, asks, `spec.tasks: Workflow "asks" has an approval, which needs spec.author: create ` +
			`this Workflow with your user name there`},
		"no nested one": {nil, nil, `spec.tasks[a].workflow.templateFrom: there is no Workflow "asks" in this namespace`},
	} {
		t.Run(title, func(t *testing.T) {
			wf, f := simple(), facts{now: noon, check: accept, template: c.template, library: taskgraph.Library{}}
			if strings.HasPrefix(c.want, "spec.templateFrom") {
				wf.Spec.Tasks, wf.Spec.TemplateFrom = nil, &batchv1.WorkflowTemplate{Name: "daily"}
			} else {
				wf.Spec.Tasks = []batchv1.WorkflowTask{{Name: "a", Workflow: &batchv1.NestedRun{
					TemplateFrom: batchv1.WorkflowTemplate{Name: "asks"}}}}
			}
			if c.nested != nil {
				f.library[c.nested.Name] = c.nested
			}
			p := decide(wf, f)
			if p.create != nil || p.invalid == nil || p.invalid.Error() != c.want {
				t.Errorf("the error is %v, want %q", p.invalid, c.want)
			}
		})
	}
}

// An approval is given to the Operation of the run, which the message names.
func TestMessageOfAnApprovalNamesItsOperation(t *testing.T) {
	wf := simple()
	op := decide(wf, facts{now: noon, check: accept}).create
	op.Status.Phase = platformv1.OperationAwaitingApproval
	op.Status.Conditions = []metav1.Condition{{Type: platformv1.ReadyCondition,
		Message: `step "ask": waiting for somebody else than ada to approve: go on`}}
	decide(wf, facts{now: noon, check: accept, operation: op})
	want := `task "ask": waiting for somebody else than ada to approve: go on; that is said in Operation "` + op.Name + `"`
	if wf.Status.Phase != batchv1.WorkflowAwaitingApproval || wf.Status.Message != want {
		t.Errorf("it is %s: %s", wf.Status.Phase, wf.Status.Message)
	}
}

// What keeps the pod of a task from starting is the reason of the Workflow as well, as long as the run goes on.
func TestReasonOfARunWhosePodDoesNotStart(t *testing.T) {
	for title, c := range map[string]struct {
		reason  string
		suspend bool
		want    string
	}{
		"no image":  {platformv1.ReasonImageUnavailable, false, platformv1.ReasonImageUnavailable},
		"no room":   {platformv1.ReasonQuotaExceeded, false, platformv1.ReasonQuotaExceeded},
		"it works":  {platformv1.ReasonProgressing, false, platformv1.ReasonProgressing},
		"suspended": {platformv1.ReasonImageUnavailable, true, platformv1.ReasonSuspended},
	} {
		t.Run(title, func(t *testing.T) {
			wf := simple()
			op := decide(wf, facts{now: noon, check: accept}).create
			op.Status.Phase, wf.Spec.Suspend = platformv1.OperationRunning, c.suspend
			conditions.Set(op, metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionFalse,
				Reason: c.reason, Message: `step "a": waiting for job x to end: no image`})
			p := decide(wf, facts{now: noon, check: accept, operation: op})
			const want = `task "a": waiting for job x to end: no image`
			if o := report(wf, p, outcome.Done()); o.Reason() != c.want || o.Message() != want || wf.Status.Message != want {
				t.Errorf("it is %s: %s", o.Reason(), o.Message())
			}
		})
	}
}
