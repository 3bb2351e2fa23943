// SPDX-License-Identifier: Apache-2.0

package optemplate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

func TestParseInlineAcceptsStepsOnObjects(t *testing.T) {
	template, err := optemplate.ParseInline(`
name: Copy
parameters:
  to: {schema: '=~"^[a-z]+$"', default: copy}
steps:
  - name: read
    wait: {apiVersion: v1, kind: ConfigMap, name: source, until: 'has(object.data)', outputs: {text: object.data.text}}
  - name: write
    apply: {apiVersion: v1, kind: ConfigMap, name: '${parameters.to}',
      content: {data: {text: '${steps.read.outputs.text}'}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if order := strings.Join(template.Order(), " "); order != "read write" {
		t.Errorf("the order is %q", order)
	}
}

func TestParseInlineRefusesWithLineAndPath(t *testing.T) {
	const wait = "wait: {apiVersion: v1, kind: ConfigMap, name: a, until: 'true'}"
	many := strings.Builder{}
	for i := range 101 {
		fmt.Fprintf(&many, "  - {name: s%d, needs: [], %s}\n", i, wait)
	}
	for title, c := range map[string]struct{ text, want string }{
		"no YAML":  {"name: [", "line 1: "},
		"no steps": {"name: A\n", "steps"},
		"unknown field": {"name: A\nsteps:\n  - {name: a, " + wait + ", retries: 3}\n",
			`line 3: field "steps[0].retries" is not known`},
		"unknown step": {"name: A\nsteps:\n  - {name: a, needs: [b], " + wait + "}\n",
			`line 3: steps[0].needs[0] names the step "b", which is not there`},
		"cycle": {"name: A\nsteps:\n  - {name: a, needs: [b], " + wait + "}\n  - {name: b, needs: [a], " + wait +
			"}\n", "steps[0].needs waits for itself"},
		"same name": {"name: A\nsteps:\n  - {name: a, " + wait + "}\n  - {name: a, " + wait + "}\n",
			`steps[1].name is "a", which another step has`},
		"no such output": {"name: A\nsteps:\n  - {name: a, " + wait +
			"}\n  - {name: b, when: 'steps.a.outputs.none == \"\"', " + wait + "}\n",
			"line 4: steps[1].when is not a valid expression"},
		"step of instances": {"name: A\nsteps:\n  - {name: a, agent: {call: Restart}}\n",
			"steps[0].agent is not allowed in an inline template, which acts on no instance"},
		"job": {"name: A\nsteps:\n  - {name: a, job: {command: [x]}}\n",
			"steps[0].job is not allowed in an inline template"},
		"two types": {"name: A\nsteps:\n  - {name: a, approval: {message: x}, " + wait + "}\n",
			"steps[0] must have exactly one of wait, operation, approval, container, script, http, apply, patch and delete"},
		"forEach approval": {"name: A\nsteps:\n  - {name: a, forEach: '[\"x\"]', approval: {message: x}}\n",
			"steps[0].forEach is for wait, operation, container, script, http, apply, patch and delete: an approval is given " +
				"once"},
		"targets": {"name: A\ntargets: [redis]\nsteps:\n  - {name: a, " + wait + "}\n", "targets"},
		"preempts": {"name: A\npreempts: true\nsteps:\n  - {name: a, " + wait + "}\n",
			"preempts is not allowed in an inline template"},
		"need of the end": {"name: A\nsteps:\n  - {name: a, needs: [b], " + wait + "}\n  - {name: b, finally: true, " +
			wait + "}\n", `names the step "b", which is taken finally`},
		"final approval": {"name: A\nsteps:\n  - {name: a, " + wait +
			"}\n  - {name: b, finally: true, approval: {message: x}}\n", "steps[1] is taken finally"},
		"parallel alone": {"name: A\nsteps:\n  - {name: a, parallelism: 2, " + wait + "}\n",
			"steps[0].parallelism is for a forEach"},
		"exit codes of a call": {"name: A\nsteps:\n  - {name: a, retry: {limit: 1, exitCodes: [1]}, " +
			"http: {url: 'http://a'}}\n",
			"steps[0].retry.exitCodes is for a step with a container, and http has none"},
		"exceptions of a call": {"name: A\nsteps:\n  - {name: a, retry: {limit: 1, exceptExitCodes: [1]}, " +
			"http: {url: 'http://a'}}\n",
			"steps[0].retry.exceptExitCodes is for a step with a container, and http has none"},
		"exit codes and exceptions": {"name: A\nsteps:\n  - {name: a, retry: {limit: 1, exitCodes: [1], " +
			"exceptExitCodes: [2]}, container: {image: i}}\n",
			"steps[0].retry.exceptExitCodes is not for a retry that has exitCodes: set one of the two"},
		"exception": {"name: A\nsteps:\n  - {name: a, retry: {limit: 1, exceptExitCodes: [0]}, container: {image: i}}\n",
			"retry.exceptExitCodes[0]"},
		"exit code": {"name: A\nsteps:\n  - {name: a, retry: {limit: 1, exitCodes: [256]}, container: {image: i}}\n",
			"retry.exitCodes[0]"},
		"outputs of items": {"name: A\nsteps:\n  - {name: a, forEach: '[\"x\"]', container: {image: i, outputs: {n: " +
			"string}}}\n", "steps[0].container.outputs are those of one pod"},
		"too many steps": {"name: A\nsteps:\n" + many.String(), "steps has 101 steps: at most 100 are allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := optemplate.ParseInline(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestStepThatIsNotThereIsNoCycle(t *testing.T) {
	_, err := optemplate.ParseInline("name: A\nsteps:\n  - {name: a, needs: [b], approval: {message: x}}\n")
	if want := `line 3: steps[0].needs[0] names the step "b", which is not there`; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// What the batch operator compiles Workflows to is valid.
func TestParseInlineAcceptsWorkflows(t *testing.T) {
	files, err := filepath.Glob("../../../../batch-operator/internal/taskgraph/testdata/*.out.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no templates: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "error: ") {
			continue
		}
		if _, err := optemplate.ParseInline(string(text)); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}
