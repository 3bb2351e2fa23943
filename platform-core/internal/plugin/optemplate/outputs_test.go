// SPDX-License-Identifier: Apache-2.0

package optemplate

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// telling is a template whose steps pass on outputs of every type.
const telling = `name: Telling
steps:
  - name: look
    wait:
      apiVersion: v1
      kind: ConfigMap
      name: found
      until: "true"
      outputs: {size: int(object.data.size), share: object.share, ready: object.ready == 'yes', names: object.names,
        limits: object.limits, said: object.said}
    types: {share: number, names: list, limits: object}
  - name: count
    when: steps.look.outputs.size > 3
    job: {component: a, command: [count], outputs: {keys: '=~"^[0-9]+$"', seen: string}}
    types: {keys: int}
  - name: use
    forEach: steps.look.outputs.names
    apply: {apiVersion: v1, kind: ConfigMap, name: "x-${each}", content: {spec: {
      keys: "${steps.count.outputs.keys}", limits: "${steps.look.outputs.limits}",
      text: "of ${steps.look.outputs.size}"}}}
  - name: keep
    engine: {do: Backup, with: {repository: here}}
  - name: scale
    when: steps.keep.outputs.size > 0 && steps.look.outputs.ready && steps.look.outputs.share < 0.5 &&
      steps.look.outputs.limits.most == 3
    engine: {do: Scale, with: {component: a, replicas: "${steps.count.outputs.keys + 1}"}}
`

func parseTelling(t *testing.T, old, new string) (Template, error) {
	t.Helper()
	if strings.Count(telling, old) != 1 && old != "" {
		t.Fatalf("%q is there %d times", old, strings.Count(telling, old))
	}
	// A template of the engine has no component that a job could be like.
	return Parse(strings.Replace(strings.Replace(telling, old, new, 1), "component: a, command", "command", 1))
}

func TestOutputsAreTyped(t *testing.T) {
	template, err := parseTelling(t, "", "")
	if err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]platformv1.OutputType{
		"look size": platformv1.OutputInt, "look share": platformv1.OutputNumber, "look ready": platformv1.OutputBool,
		"look names":  platformv1.OutputList,
		"look limits": platformv1.OutputObject, "look said": platformv1.OutputString, "count keys": platformv1.OutputInt,
		"count seen": platformv1.OutputString,
		"count job":  platformv1.OutputString, "keep size": platformv1.OutputInt, "scale generation": platformv1.OutputInt,
		"scale changed":  platformv1.OutputString,
		"nobody nothing": platformv1.OutputString,
	} {
		step, name, _ := strings.Cut(output, " ")
		if got := template.OutputType(step, name); got != want {
			t.Errorf("%s is of type %s, want %s", output, got, want)
		}
	}
	look, _ := template.Step("look")
	object := map[string]any{"data": map[string]any{"size": "12"}, "share": 0.25, "ready": "yes", "names": []any{"a", "b"},
		"limits": map[string]any{"most": int64(3)}, "said": int64(7)}
	recorded := map[string]any{}
	for name, want := range map[string]string{"size": "12", "share": "0.25", "ready": "true", "names": `["a","b"]`,
		"limits": `{"most":3}`, "said": "7"} {
		got, err := template.Value("look", name, look.Wait.Outputs[name], map[string]any{"object": object})
		if err != nil || got != want {
			t.Errorf("%s is recorded as %q, %v; want %q", name, got, err, want)
		}
		recorded[name] = template.Output("look", name, got)
	}
	variables := map[string]any{"each": "a",
		"steps": map[string]any{"look": map[string]any{"phase": "Succeeded", "outputs": recorded},
			"count": map[string]any{"outputs": map[string]any{"keys": int64(42)}},
			"keep":  map[string]any{"outputs": map[string]any{"size": int64(1)}}}}
	use, _ := template.Step("use")
	spec := use.Apply.Content["spec"].(map[string]any)
	for name, want := range map[string]any{"keys": int64(42), "limits": map[string]any{"most": int64(3)},
		"text": "of 12"} {
		if got, err := template.Leaf("use", spec[name].(string), variables); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, %v; want %#v", name, got, err, want)
		}
	}
	if items, err := template.Texts("use", use.ForEach, variables); err != nil || len(items) != 2 {
		t.Errorf("it goes through %v, %v", items, err)
	}
	scale, _ := template.Step("scale")
	if wanted, err := template.Truth("scale", scale.When, variables); err != nil || !wanted {
		t.Errorf("scale is wanted: %t, %v", wanted, err)
	}
	if got, err := template.Text("scale", scale.Engine.With["replicas"], variables); err != nil || got != "43" {
		t.Errorf("it has %q replicas, %v", got, err)
	}
}

func TestOutputsOfAnotherTypeAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, at, says string }{
		"number with a text": {"steps.look.outputs.size > 3", `steps.look.outputs.size == \"3\"`, "when: steps.look",
			"no matching overload for '_==_' applied to '(int, string)'"},
		"text as a number": {"steps.look.outputs.size > 3", "steps.count.outputs.seen > 3", "when: steps.count",
			"undefined field 'count'"},
		"number of a job": {"${steps.count.outputs.keys + 1}", "${steps.count.outputs.keys + 'x'}",
			"engine: {do: Scale", "no matching overload for '_+_' applied to '(int, string)'"},
		"implied by the verb": {"steps.keep.outputs.size > 0", "steps.keep.outputs.size != ''", "when: steps.keep",
			"no matching overload"},
		"output of another verb": {"steps.keep.outputs.size > 0", "steps.keep.outputs.changed != ''", "when: steps.keep",
			"undefined field 'changed'"},
		"truth as a text": {"&& steps.look.outputs.ready &&", "&& steps.look.outputs.ready == 'true' &&",
			"when: steps.keep", "no matching overload"},
		"list in a text": {"of ${steps.look.outputs.size}", "of ${steps.look.outputs.names}", "text: \"of",
			"it gives a list: it must give text or a whole number or a number or true or false"},
		"list in a ConfigMap": {"content: {spec:", "content: {data: {names: \"${steps.look.outputs.names}\"}, spec:",
			"apply:", "it gives a list: it must give text or a whole number or a number or true or false"},
		"object as a label": {"content: {spec:",
			"content: {metadata: {labels: {a: \"${steps.look.outputs.limits}\"}}, spec:", "apply:",
			"it gives an object: it must give text"},
		"object as a name": {"x-${each}", "x-${steps.look.outputs.limits}", "apply:",
			"it gives an object: it must give text"},
		"number to go through": {"forEach: steps.look.outputs.names", "forEach: steps.look.outputs.size", "forEach",
			"it gives a whole number: it must give a list of texts"},
		"expression of a type": {"types: {share: number, names", "types: {size: bool, share: number, names",
			"outputs: {size", "is declared as bool, and its expression does not fit: it gives a whole number: it must give " +
				"true or false"},
		"type of no output": {"types: {keys: int}", "types: {kyes: int}", "types: {kyes",
			"steps[1].types.kyes is no output that a type can be said of: those of this step are keys, seen"},
		"type of the engine's own": {"types: {keys: int}", "types: {job: int}", "types: {job",
			"no output that a type can be said of"},
		"type of an engine step": {"    engine: {do: Backup", "    types: {size: string}\n    engine: {do: Backup",
			"types: {size", "those of this step are none"},
		"unknown type": {"types: {keys: int}", "types: {keys: integer}", "types: {keys",
			`must be one of "string", "int", "number", "bool", "list" or "object"`},
	} {
		t.Run(name, func(t *testing.T) {
			new := strings.ReplaceAll(tc.new, `\"`, `"`)
			_, err := parseTelling(t, tc.old, new)
			if err == nil {
				t.Fatal("it is accepted")
			}
			line := lineOf(t, strings.Replace(telling, tc.old, new, 1), tc.at)
			got, ok := errors.AsType[document.Problem](err)
			if !ok || got.Line != line || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got line %d: %s; want line %d: %q", got.Line, got.Message, line, tc.says)
			}
		})
	}
}

func TestOutputsAreConverted(t *testing.T) {
	template := Template{outputs: map[string]outputTypes{
		"s": {"int": platformv1.OutputInt, "number": platformv1.OutputNumber, "bool": platformv1.OutputBool,
			"list": platformv1.OutputList, "object": platformv1.OutputObject, "string": platformv1.OutputString}}}
	for _, tc := range []struct{ name, text, want, says string }{
		{"int", " 042\n", "42", ""},
		{"int", "-9223372036854775808", "-9223372036854775808", ""},
		{"int", "9223372036854775808", "", `output "int" of step "s" is "9223372036854775808": it must be a whole number ` +
			`of 64 bits`},
		{"int", "4.0", "", "whole number"},
		{"int", "", "", `is "": it must be`},
		{"number", "0.50", "0.5", ""},
		{"number", "7", "7", ""},
		{"number", "NaN", "", "it must be a number"},
		{"number", "-Inf", "", "it must be a number"},
		{"bool", "true", "true", ""},
		{"bool", "yes", "", "it must be true or false"},
		{"list", `[1, "a"]`, `[1,"a"]`, ""},
		{"list", `{"a": 1}`, "", "it must be a JSON list"},
		{"list", `[1] [2]`, "", "it must be a JSON list"},
		{"object", `{"b": 1.5, "a": 12345678901}`, `{"a":12345678901,"b":1.5}`, ""},
		{"object", `null`, "", "it must be a JSON object"},
		{"object", `{"a": ` + strings.Repeat("1", 200), "", strings.Repeat("1", 74) + "…"},
		{"string", " as it is ", " as it is ", ""},
		{"unknown", "as it is", "as it is", ""},
	} {
		got, err := template.RecordOutput("s", tc.name, tc.text)
		switch {
		case tc.says == "" && (err != nil || got != tc.want):
			t.Errorf("%s %q is recorded as %q, %v; want %q", tc.name, tc.text, got, err, tc.want)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s %q: %v; want %q", tc.name, tc.text, err, tc.says)
		}
		if err == nil {
			if again, err := template.RecordOutput("s", tc.name, got); err != nil || again != got {
				t.Errorf("%s: what was recorded as %q would be recorded as %q, %v", tc.name, got, again, err)
			}
		}
	}
}
