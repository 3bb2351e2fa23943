// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
)

func TestTemplatesThatRunEachOther(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartOperations, "A.yaml", "", "name: A\nsteps: [{name: b, operation: {templateRef: B}}]\n")
	edit(t, sources, PartOperations, "B.yaml", "", "name: B\nsteps: [{name: a, operation: {templateRef: A}}]\n")
	_, errs := Load(sources)
	if text := list(errs); !strings.Contains(text, "A.yaml:2: runs itself: A runs B runs A") ||
		!strings.Contains(text, "B.yaml:2: runs itself") {
		t.Errorf("got\n%s", text)
	}
}

func TestActionsInSteps(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartOperations, "A.yaml", "", "name: A\nsteps: [{name: b, agent: {action: fly}}]\n")
	_, errs := Load(sources)
	if !strings.Contains(list(errs), `steps[0].agent.action names the action "fly", which component "redis" has not`) {
		t.Errorf("got\n%s", list(errs))
	}
	edit(t, sources, PartComponents, components, probeLine, declared+probeLine)
	edit(t, sources, PartOperations, "A.yaml", "",
		"name: A\nsteps: [{name: b, agent: {action: hand-over, parameters: {to: x}}}]\n")
	if _, errs := Load(sources); !strings.Contains(list(errs),
		`steps[0].agent lacks the parameter "why", which action "hand-over" takes: add it`) {
		t.Errorf("got\n%s", list(errs))
	}
}

// What an action says is text on the wire: the step that has it run says what it is.
func TestOutputsOfActionsAreTyped(t *testing.T) {
	const sized = "    actions: [{name: size, command: [redis-cli, DBSIZE], outputs: {keys: stdout}}]\n"
	load := func(check string) (*Bundle, []LoadError) {
		sources := redisSources(t)
		edit(t, sources, PartComponents, components, probeLine, sized+probeLine)
		edit(t, sources, PartOperations, "Size.yaml", "",
			"name: Size\nsteps:\n  - name: ask\n    agent: {action: size, pods: Writers}\n    types: {keys: int}\n"+
				"  - name: restart\n    when: "+check+"\n    agent: {call: Restart}\n")
		return Load(sources)
	}
	bundle, errs := load("steps.ask.outputs.keys > 100")
	if len(errs) > 0 {
		t.Fatal(list(errs))
	}
	template := bundle.Operations["Size"]
	if got, err := template.RecordOutput("ask", "keys", "120\n"); err != nil || got != "120" {
		t.Errorf("it is recorded as %q, %v", got, err)
	}
	if _, err := template.RecordOutput("ask", "keys", "ERR\n"); err == nil ||
		!strings.Contains(err.Error(), "it must be a whole number") {
		t.Errorf("it says %v", err)
	}
	if _, errs := load("steps.ask.outputs.keys != '0'"); !strings.Contains(list(errs), "Size.yaml:7: steps[1].when is "+
		"not a valid expression: found no matching overload for '_!=_' applied to '(int, string)'") {
		t.Errorf("got\n%s", list(errs))
	}
}
