// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// moving is a template that uses all that steps can say.
const moving = `name: Move
description: Moves things.
parameters:
  count: {schema: '=~"^[0-9]+$"', description: how many}
  why: {schema: string, default: ""}
preconditions:
  - {rule: "target.pods > 0", message: start it first}
steps:
  - name: ask
    approval: {message: "move ${parameters.count} of ${target.name}"}
  - name: look-up
    needs: []
    wait: {apiVersion: v1, kind: ConfigMap, name: "${target.name}-map", until: "object.data.ready == 'yes'",
      outputs: {where: "object.data.where"}}
  - name: move
    needs: [ask, look-up]
    when: int(parameters.count) > 0 && steps.look_up.outputs.where != ""
    forEach: "['a', 'b']"
    retry: {limit: 2, backoff: 1s}
    timeout: 1m
    compensate: [undo]
    apply: {apiVersion: v1, kind: ConfigMap, name: "x-${each}",
      content: {data: {to: "${steps.look_up.outputs.where}", n: "${parameters.count}"}}}
  - name: check
    onFailure: Continue
    engine: {do: Scale, with: {replicas: "${parameters.count}"}}
  - name: undo
    delete: {apiVersion: v1, kind: ConfigMap, name: x}
`

func parseMoving(t *testing.T, old, new string) (Template, error) {
	t.Helper()
	if strings.Count(moving, old) != 1 && old != "" {
		t.Fatalf("%q is there %d times", old, strings.Count(moving, old))
	}
	return Parse(strings.Replace(moving, old, new, 1))
}

func TestATemplateSaysWhetherItPreempts(t *testing.T) {
	template, err := parseMoving(t, "name: Move\n", "name: Move\npreempts: true\n")
	if err != nil || !template.Preempts {
		t.Errorf("it preempts: %t, %v", template.Preempts, err)
	}
	if template, err = parseMoving(t, "", ""); err != nil || template.Preempts {
		t.Errorf("left out, it preempts: %t, %v", template.Preempts, err)
	}
	if _, err = parseMoving(t, "name: Move\n", "name: Move\npreempts: often\n"); err == nil ||
		!strings.Contains(err.Error(), "preempts") {
		t.Errorf("it says %v", err)
	}
}

func TestATemplateSaysHowLongItMayTake(t *testing.T) {
	template, err := parseMoving(t, "name: Move\n", "name: Move\ntimeout: 1h30m\n")
	if err != nil || template.Timeout.Duration() != 90*time.Minute {
		t.Errorf("it may take %s: %v", template.Timeout.Duration(), err)
	}
	for text, says := range map[string]string{"0s": "timeout is 0s: it must be greater than 0",
		"99999999999h": "at most 2562047h", "long": "a time such as 30s or 5m", "-1m": "a time such as 30s or 5m"} {
		if _, err = parseMoving(t, "name: Move\n", "name: Move\ntimeout: "+text+"\n"); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: it says %v, want %q", text, err, says)
		}
	}
}

func TestOperationSteps(t *testing.T) {
	template, err := parseMoving(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if order := template.Order(); !slices.Equal(order, []string{"ask", "look-up", "move", "check", "undo"}) {
		t.Errorf("order is %v", order)
	}
	if before := template.Before("check"); !slices.Equal(before, []string{"move", "ask", "look-up"}) {
		t.Errorf("before check are %v", before)
	}
	variables := map[string]any{
		"parameters": map[string]string{"count": "3", "why": ""},
		"target":     map[string]any{"name": "a", "pods": int64(2)},
		"steps": map[string]any{"look_up": map[string]any{"phase": "Succeeded",
			"outputs": map[string]string{"where": "there"}}},
		"each": "b", "object": map[string]any{"data": map[string]any{"ready": "yes", "where": "there"}},
	}
	for _, tc := range []struct {
		step, source, want string
		eval               func(step, source string, variables map[string]any) (string, error)
	}{
		{"ask", "move ${parameters.count} of ${target.name}", "move 3 of a", template.Text},
		{"move", "x-${each}", "x-b", template.Text},
		{"move", "${steps.look_up.outputs.where}", "there", template.Text},
		{"look-up", "object.data.where", "there", func(step, source string, variables map[string]any) (string, error) {
			return template.Value(step, "where", source, variables)
		}},
	} {
		if got, err := tc.eval(tc.step, tc.source, variables); err != nil || got != tc.want {
			t.Errorf("%q of %s gives %q, %v; want %q", tc.source, tc.step, got, err, tc.want)
		}
	}
	move, _ := template.Step("move")
	for source, eval := range map[string]func() (bool, error){
		move.When:         func() (bool, error) { return template.Truth("move", move.When, variables) },
		"target.pods > 0": func() (bool, error) { return template.Truth("", "target.pods > 0", variables) },
		"object":          func() (bool, error) { return template.Truth("look-up", "object.data.ready == 'yes'", variables) },
	} {
		if got, err := eval(); err != nil || !got {
			t.Errorf("%q gives %t, %v", source, got, err)
		}
	}
	if items, err := template.Texts("move", move.ForEach, variables); err != nil ||
		!slices.Equal(items, []string{"a", "b"}) {
		t.Errorf("forEach gives %v, %v", items, err)
	}
	asks, err := parseMoving(t, "message: start it first",
		`message: "${string(target.pods)} pods of ${target.name}: start it first"`)
	if err != nil {
		t.Fatal(err)
	}
	if says, err := asks.Text("", asks.Preconditions[0].Message, variables); err != nil ||
		says != "2 pods of a: start it first" {
		t.Errorf("the precondition says %q, %v", says, err)
	}
	if _, err := template.Truth("look-up", "object.data.ready == 'yes'",
		map[string]any{"object": map[string]any{}}); err == nil {
		t.Error("a field that is not there is no error")
	}
}

// brokenSteps are templates, and what is said of them.
var brokenSteps = map[string]struct{ old, new, at, says string }{
	"unknown parameter": {"int(parameters.count)", "int(parameters.cuont)", "int(parameters.cuont)",
		"undefined field 'cuont'"},
	"unknown step": {"steps.look_up.outputs.where}\", n", "steps.look_pu.outputs.where}\", n",
		"look_pu", "undefined field 'look_pu'"},
	"unknown output": {"steps.look_up.outputs.where != \"\"", "steps.look_up.outputs.there != \"\"",
		"there != ", "undefined field 'there'"},
	"step that may not end": {"until: \"object.data.ready == 'yes'\"",
		"until: \"steps.ask.phase == 'Succeeded'\"", "until:", "undefined field 'ask'"},
	"no truth": {"when: int(parameters.count) > 0 && steps.look_up.outputs.where != \"\"",
		"when: int(parameters.count)", "when:", "it must give true or false"},
	"no list": {`forEach: "['a', 'b']"`, `forEach: "'a'"`, "forEach",
		"it must give a list of texts"},
	"each without forEach": {"move ${parameters.count} of ${target.name}", "${each}", "approval",
		"undeclared reference to 'each'"},
	"need unknown": {"needs: [ask, look-up]", "needs: [ask, look]", "needs: [ask",
		`names the step "look"`},
	"circle":                 {"needs: []", "needs: [check]", "needs: [check]", "waits for itself"},
	"needs what compensates": {"needs: [ask, look-up]", "needs: [undo]", "needs: [undo]", "only to compensate"},
	"compensation before": {"compensate: [undo]", "compensate: [nobody]", "compensate: [nobody]",
		"does not stand after"},
	"two approvals": {
		"    onFailure: Continue\n    engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}\n",
		"    approval: {message: x}\n", "- name: check", "one approval"},
	"approval by two": {"    approval: {message: \"move ${parameters.count} of ${target.name}\"}\n",
		"    approval: {message: x, count: 2}\n", "approval: {message: x", "is 2: more than one is for an inline template"},
	"two points of no return": {"  - name: undo\n", "  - name: more\n    commits: x\n    operation: " +
		"{templateRef: Restart}\n  - name: again\n    commits: y\n    operation: {templateRef: Restart}\n  - name: undo\n",
		"commits: y", `a second point of no return after step "more"`},
	"point of no return out of reach": {"  - name: undo\n", "  - name: undo\n    commits: x\n", "commits: x",
		"never reached"},
	"point of no return when never": {"    onFailure: Continue\n", "    when: \"false\"\n    commits: x\n", "commits: x",
		"never reached"},
	"point of no return of a wait": {"    needs: []\n", "    needs: []\n    commits: x\n", "commits: x",
		"touches nothing"},
	"two lines on no return": {"    onFailure: Continue\n", "    commits: \"x\\ny\"\n", "commits:", "in one line"},
	"placeholder on no return": {"    onFailure: Continue\n", "    commits: \"${target.name}\"\n", "commits:",
		"a placeholder is not allowed here"},
	"way back at the point": {"    timeout: 1m\n", "    timeout: 1m\n    commits: x\n", "compensate: [undo]",
		`does not end before step "move", the point of no return`},
	"way back beside the point": {"    onFailure: Continue\n", "    needs: [ask]\n    commits: x\n", "compensate: [undo]",
		`does not end before step "check", the point of no return`},
	"approval beside the point": {"    onFailure: Continue\n", "    needs: [look-up]\n    commits: x\n", "name: ask",
		"nobody can say no"},
	"compensation with needs": {"    delete: {apiVersion: v1, kind: ConfigMap, name: x}\n",
		"    needs: [ask]\n    delete: {apiVersion: v1, kind: ConfigMap, name: x}\n", "- name: undo",
		"is taken to compensate: it can have no needs, no compensate and no approval"},
	"signal without a name": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}",
		"agent: {call: Signal}", "agent: {call: Signal}", "must have a signal for the call Signal, and for no other"},
	"signal of another call": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}",
		"agent: {call: Stop, signal: SIGHUP}", "agent: {call: Stop",
		"must have a signal for the call Signal, and for no other"},
	"call and action": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}",
		"agent: {call: Stop, action: tidy}", "agent: {call: Stop", "must have exactly one of call and action"},
	"pods and a pod": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}",
		"agent: {call: Stop, pods: One, pod: a}", "agent: {call: Stop", "must have at most one of pods and pod"},
	"neither call nor action": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}", "agent: {pods: One}",
		"agent: {pods: One}", "must have exactly one of call and action"},
	"parameters of a call": {"engine: {do: Scale, with: {replicas: \"${parameters.count}\"}}",
		"agent: {call: Stop, parameters: {a: b}}", "agent: {call: Stop", "are for an action"},
	"two types": {"    onFailure: Continue\n", "    onFailure: Continue\n    agent: {call: Restart}\n",
		"- name: check", "exactly one of"},
	"value of another verb": {"with: {replicas:", "with: {size:", "engine", "no value that Scale takes"},
	"constraint":            {`schema: '=~"^[0-9]+$"'`, "schema: '=~'", "schema: '=~'", "no CUE constraint"},
	"default": {"schema: string, default: \"\"", "schema: '=~\"^a\"', default: b", "why:",
		"it must be"},
	"span": {"timeout: 1m", "timeout: soon", "timeout: soon", "a time such as 30s"},
	"placeholder in no value": {"description: Moves things.", "description: \"${target.name}\"", "description: \"$",
		"a placeholder is not allowed here"},
	"forEach of an engine": {"    onFailure: Continue\n", "    forEach: \"['a']\"\n", "forEach: \"['a']\"",
		"an engine step is taken once"},
	"message of a precondition": {"message: start it first", "message: \"${target.size}\"", "message: \"${target.size}\"",
		"undefined field 'size'"},
	"precondition sees steps": {"target.pods > 0", "steps.ask.phase == ''", "steps.ask",
		"undeclared reference to 'steps'"},
}

func TestBrokenSteps(t *testing.T) {
	for name, tc := range brokenSteps {
		t.Run(name, func(t *testing.T) {
			_, err := parseMoving(t, tc.old, tc.new)
			if err == nil {
				t.Fatal("it is accepted")
			}
			line := lineOf(t, strings.Replace(moving, tc.old, tc.new, 1), tc.at)
			got, ok := errors.AsType[document.Problem](err)
			if !ok || got.Line != line || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got line %d: %s; want line %d: %q", got.Line, got.Message, line, tc.says)
			}
		})
	}
}

func TestOperationParameters(t *testing.T) {
	template, err := parseMoving(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		given map[string]string
		says  string
	}{
		"given":   {map[string]string{"count": "3"}, ""},
		"missing": {nil, `parameter "count" of template "Move" is missing: how many`},
		"unknown": {map[string]string{"cuont": "3"}, `has no parameter "cuont": it takes count, why`},
		"wrong":   {map[string]string{"count": "x"}, `parameter "count" of template "Move" is "x"`},
	} {
		values, err := template.CheckParameters(tc.given)
		switch {
		case tc.says == "" && (err != nil || values["count"] != "3" || values["why"] != ""):
			t.Errorf("%s: %v, %v", name, values, err)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
}

// A later step can tell which version an upgrade left; no other edit has one.
func TestOutputsOfAnUpgrade(t *testing.T) {
	told := "name: A\nsteps:\n  - {name: first, engine: %s}\n  - {name: tell, needs: [first], apply: {apiVersion: v1, " +
		"kind: ConfigMap, name: note, content: {data: {from: \"${steps.first.outputs.from}\"}}}}\n"
	if _, err := Parse(fmt.Sprintf(told, `{do: Upgrade, with: {version: "8.0"}}`)); err != nil {
		t.Error(err)
	}
	if _, err := Parse(fmt.Sprintf(told, "{do: Stop}")); err == nil || !strings.Contains(err.Error(), "from") {
		t.Errorf("a stop has a version that it left: %v", err)
	}
}

// lineOf returns the number of the line that has a text.
func lineOf(t *testing.T, text, part string) int {
	t.Helper()
	before, _, ok := strings.Cut(text, part)
	if !ok {
		t.Fatalf("there is no %q", part)
	}
	return strings.Count(before, "\n") + 1
}
