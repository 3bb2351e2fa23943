// SPDX-License-Identifier: Apache-2.0

package optemplate_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

const innerTemplate = `
name: Inner
parameters: {day: {schema: string}, most: {schema: string, default: "1"}}
outputs: {rows: int(tasks.count.outputs.rows), day: parameters.day}
steps:
  - {name: count, wait: {apiVersion: v1, kind: ConfigMap, name: '${parameters.day}', until: 'true',
      outputs: {rows: object.data.rows}}}
`

// outer is a template that runs another one.
func outer(inner, parameters, more string) string {
	return "name: Outer\nsteps:\n  - {name: run, operation: {template: " + strconv.Quote(inner) + ", parameters: {" +
		parameters + "}}}\n" + more
}

func TestNestedInlineTemplateHasOutputsWithTypes(t *testing.T) {
	template, err := optemplate.ParseInline(outer(innerTemplate, "day: monday", "  - {name: tell, when: "+
		"'tasks.run.outputs.rows > 3 && tasks.run.outputs.operation != \"\"', approval: {message: "+
		"'${tasks.run.outputs.day}'}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if kind := template.OutputType("run", "rows"); kind != platformv1.OutputInt {
		t.Errorf("the output is of type %s", kind)
	}
	inner := template.Steps[0].Operation.Inline()
	if inner == nil || inner.Name != "Inner" {
		t.Fatalf("the nested template is %+v", inner)
	}
	steps := map[string]any{"count": map[string]any{"phase": "Succeeded", "outputs": map[string]any{"rows": "12"}}}
	if rows, err := inner.Result("rows",
		map[string]any{"parameters": map[string]string{"day": "x"}, "steps": steps, "tasks": steps}); err != nil ||
		rows != "12" {
		t.Errorf("the output is %q: %v", rows, err)
	}
}

func TestNestedInlineTemplateIsRefused(t *testing.T) {
	deep := innerTemplate
	for range 4 {
		deep = outer(deep, "day: x", "")
		deep = strings.Replace(deep, "name: Outer\n", "name: Outer\nparameters: {day: {schema: string}}\n", 1)
	}
	for title, c := range map[string]struct{ text, want string }{
		"not valid": {outer("name: A", "", ""), "steps[0].operation.template is not valid: line 1: "},
		"unknown parameter": {outer(innerTemplate, "day: x, night: y", ""),
			"steps[0].operation.parameters.night is no parameter of the template: it takes day, most"},
		"no parameter": {outer(innerTemplate, "", ""), `steps[0].operation.parameters lacks the parameter "day"`},
		"unknown output": {outer(innerTemplate, "day: x",
			"  - {name: b, approval: {message: '${tasks.run.outputs.none}'}}\n"), "steps[1].approval.message"},
		"too deep": {deep, "is nested too deep: at most 4 templates run each other"},
		"another template": {"name: A\nsteps: [{name: a, operation: {templateRef: Restart}}]\n",
			"steps[0].operation must have template, and no templateRef"},
		"output": {strings.Replace(innerTemplate, "parameters.day}", "tasks.none.phase}", 1),
			"outputs.day is not a valid expression"},
		"output of the run": {strings.Replace(innerTemplate, ", day: parameters", ", operation: parameters", 1),
			"outputs.operation is the name of the Operation"},
	} {
		t.Run(title, func(t *testing.T) {
			if _, err := optemplate.ParseInline(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
	_, err := optemplate.Parse(fmt.Sprintf("name: A\nsteps: [{name: a, operation: {template: %q}}]\n", innerTemplate))
	if err == nil || !strings.Contains(err.Error(), "steps[0].operation.template is for an inline template") {
		t.Errorf("the error is %v", err)
	}
}
