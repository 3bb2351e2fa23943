// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// runs is a task that runs another Workflow.
func runs(name string) batchv1.WorkflowTask {
	return batchv1.WorkflowTask{Name: "run-" + name,
		Workflow: &batchv1.NestedRun{TemplateFrom: batchv1.WorkflowTemplate{Name: name}}}
}

func templateOf(name string, tasks ...batchv1.WorkflowTask) *batchv1.Workflow {
	wf := &batchv1.Workflow{}
	wf.Name, wf.Spec.TemplateOnly, wf.Spec.Tasks = name, true, tasks
	return wf
}

func TestPrepareNested(t *testing.T) {
	call := batchv1.WorkflowTask{Name: "call", HTTP: &batchv1.HTTPTask{URL: "http://x/${parameters.day}"}}
	daily := templateOf("daily", call)
	daily.Spec.Parameters = []batchv1.WorkflowParameter{{Name: "day", Pattern: "[a-z]+"}}
	daily.Spec.Outputs = map[string]batchv1.OutputExpression{"status": "tasks.call.outputs.status"}
	given := func(day batchv1.Argument) batchv1.WorkflowTask {
		task := runs("daily")
		task.Workflow.Arguments = map[string]batchv1.Argument{"day": day}
		return task
	}
	uses := batchv1.WorkflowTask{Name: "after", DependsOn: []batchv1.TaskDependency{{Name: "run-daily"}},
		When: "tasks.run_daily.outputs.status == 200", HTTP: &batchv1.HTTPTask{URL: "http://x"}}
	plain := batchv1.WorkflowTask{Name: "plain", HTTP: &batchv1.HTTPTask{URL: "http://x"}}
	wrong := uses
	wrong.When = `tasks.run_daily.outputs.none == ""`
	for title, c := range map[string]struct {
		tasks   []batchv1.WorkflowTask
		library []*batchv1.Workflow
		want    string
	}{
		"runs":        {[]batchv1.WorkflowTask{given("monday"), uses}, nil, ""},
		"placeholder": {[]batchv1.WorkflowTask{given("${parameters.p}"), uses}, nil, ""},
		"no such output": {[]batchv1.WorkflowTask{given("monday"), wrong}, nil,
			"spec.tasks[after].when is not a valid expression"},
		"wrong argument": {[]batchv1.WorkflowTask{given("7")}, nil,
			`spec.tasks[run-daily].workflow.arguments[day] is "7": it must match [a-z]+`},
		"wrong placeholder": {[]batchv1.WorkflowTask{given("${parameters.none}")}, nil,
			"spec.tasks[run-daily].workflow.arguments.day"},
		"no argument": {[]batchv1.WorkflowTask{runs("daily")}, nil,
			`spec.tasks[run-daily].workflow.arguments: parameter "day" has no default`},
		"no Workflow": {[]batchv1.WorkflowTask{runs("none")}, nil,
			`spec.tasks[run-none].workflow.templateFrom: there is no Workflow "none"`},
		"a run": {[]batchv1.WorkflowTask{runs("run")}, []*batchv1.Workflow{{}},
			`Workflow "run" is a run: name one with templateOnly`},
		"itself": {[]batchv1.WorkflowTask{runs("a")}, []*batchv1.Workflow{templateOf("a", runs("top"))},
			"spec.tasks: Workflows run each other in a cycle: top runs a runs top"},
		"cycle": {[]batchv1.WorkflowTask{runs("a")},
			[]*batchv1.Workflow{templateOf("a", runs("b")), templateOf("b", runs("a"))}, "a runs b runs a"},
		"four deep": {[]batchv1.WorkflowTask{runs("a")},
			[]*batchv1.Workflow{templateOf("a", runs("b")), templateOf("b", runs("c")), templateOf("c", plain)}, ""},
		"too deep": {[]batchv1.WorkflowTask{runs("a")},
			[]*batchv1.Workflow{templateOf("a", runs("b")), templateOf("b", runs("c")), templateOf("c", runs("d")),
				templateOf("d", call)},
			"run each other too deep: top runs a runs b runs c runs d; at most 4 are allowed"},
		"wrong within": {[]batchv1.WorkflowTask{runs("a")}, []*batchv1.Workflow{templateOf("a", wrong)},
			`spec.tasks[run-a].workflow: Workflow "a" cannot be run: spec.tasks[after]`},
		"too large": {[]batchv1.WorkflowTask{runs("a")},
			[]*batchv1.Workflow{templateOf("a",
				batchv1.WorkflowTask{Name: "s", Script: &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "i"},
					Source: strings.Repeat("\"", 40000)}},
				batchv1.WorkflowTask{Name: "t", Script: &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "i"},
					Source: strings.Repeat("\"", 40000)}})}, "bytes as JSON: at most 262144 are allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			library := Library{"daily": daily}
			for _, wf := range c.library {
				if wf.Name == "" {
					wf.Name = "run"
				}
				library[wf.Name] = wf
			}
			top := templateOf("top", c.tasks...)
			top.Spec.Parameters = []batchv1.WorkflowParameter{{Name: "p"}}
			text, err := Prepare(SourceOf(top), nil, library, enginetest.CheckTemplate)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one with %q, for %s", err, c.want, text)
			}
		})
	}
}

func TestCollectEndsInACycle(t *testing.T) {
	all := Library{"a": templateOf("a", runs("b")), "b": templateOf("b", runs("a"), runs("none"))}
	library, err := Collect([]batchv1.WorkflowTask{runs("a")},
		func(name string) (*batchv1.Workflow, error) { return all[name], nil })
	if err != nil || len(library) != 2 {
		t.Errorf("it collects %v: %v", library, err)
	}
}
