// SPDX-License-Identifier: Apache-2.0

package optemplate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// one is an inline template of one step.
func one(step string) string { return "name: A\nsteps:\n  - {name: a, " + step + "}\n" }

func TestParseInlineChecksTasksAndCalls(t *testing.T) {
	for title, c := range map[string]struct{ step, want string }{
		"container": {"container: {image: 'example/tool:1', args: [x], mounts: [{path: /data, claim: c}], outputs: " +
			"{rows: '=~\"^[0-9]+$\"'}}", ""},
		"script": {"script: {image: 'example/tool:1', source: 'echo ${HOME}'}", ""},
		"call": {"http: {url: 'https://example.com/a', headers: [{name: Authorization, prefix: 'Bearer ', " +
			"secret: {name: s, key: k}}], check: 'response.json.ok == true', outputs: {id: 'string(response.json.id)'}}", ""},
		"no image":  {"container: {args: [x]}", "steps[0].container.image"},
		"no source": {"script: {image: a}", "steps[0].script.source"},
		"env twice": {"container: {image: a, env: [{name: A, value: x}, {name: A, value: y}]}",
			`steps[0].container.env[1].name is "A", which another one has`},
		"env of two": {"container: {image: a, env: [{name: A, value: x, secret: {name: s, key: k}}]}",
			"steps[0].container.env[0] must have at most one of value, secret and configMap"},
		"mount of two": {"container: {image: a, mounts: [{path: /d, claim: c, secret: s}]}",
			"steps[0].container.mounts[0] must have exactly one of claim, configMap, secret and scratch"},
		"mount at root": {"container: {image: a, mounts: [{path: /, claim: c}]}", "steps[0].container.mounts[0].path"},
		"mount with dots": {"container: {image: a, mounts: [{path: /d, subPath: ../x, claim: c}]}",
			"subPath must not leave the volume"},
		"resources": {"container: {image: a, resources: {requests: {cpu: much}}}", "resources"},
		"placement": {"container: {image: a, nodeSelector: {gpu: h100}, priorityClassName: high, tolerations: [{key: " +
			"nvidia.com/gpu, operator: Exists, effect: NoSchedule}, {key: a, value: b, effect: NoExecute, " +
			"tolerationSeconds: 60}]}", ""},
		"node selector": {"container: {image: a, nodeSelector: {gpu: '!'}}",
			"steps[0].container.nodeSelector has gpu=!, which is no label"},
		"toleration": {"script: {image: a, source: b, tolerations: [{key: a, operator: Exists, value: b}]}",
			`steps[0].script.tolerations cannot be had: the one of key "a" has operator Exists and a value`},
		"priority class": {"container: {image: a, priorityClassName: 'A B'}",
			`steps[0].container.priorityClassName is "A B", which is no name of a PriorityClass`},
		"placeholder":     {"container: {image: a, args: ['${nobody}']}", "steps[0].container.args[0]"},
		"no URL":          {"http: {url: 'ftp://example.com'}", "steps[0].http.url must begin with http:// or https://"},
		"password in URL": {"http: {url: 'https://a:b@example.com'}", "steps[0].http.url must not have a user or a password"},
		"header of ours": {"http: {url: 'https://example.com', headers: [{name: idempotency-key, value: x}]}",
			"which the engine sets"},
		"header of two": {"http: {url: 'https://example.com', headers: [{name: A, value: x, secret: {name: s, key: k}}]}",
			"has a value and a secret"},
		"within": {"http: {url: 'https://example.com', within: 1h}", "steps[0].http.within is 1h"},
		"check": {"http: {url: 'https://example.com', check: response.status}",
			"steps[0].http.check is not a valid expression"},
		"answer in URL": {"http: {url: 'https://example.com/${response.body}'}", "steps[0].http.url"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := optemplate.ParseInline(one(c.step))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestTaskCommandOfAScript(t *testing.T) {
	for title, c := range map[string]struct {
		script  optemplate.ScriptStep
		program []string
	}{
		"shell": {optemplate.ScriptStep{Source: "exit 3"}, []string{"/bin/sh", "-ec", "exit 3"}},
		"shell with args": {optemplate.ScriptStep{Source: "echo $1", Args: []string{"a"}},
			[]string{"/bin/sh", "-ec", "echo $1", "script"}},
		"python": {optemplate.ScriptStep{Source: "print(1)", Interpreter: []string{"python3", "-c"}, Args: []string{"a"}},
			[]string{"python3", "-c", "print(1)"}},
	} {
		t.Run(title, func(t *testing.T) {
			program, _, args := (&optemplate.Step{Script: &c.script}).TaskCommand()
			if !slices.Equal(program, c.program) || !slices.Equal(args, c.script.Args) {
				t.Errorf("it runs %q with %q", program, args)
			}
		})
	}
}
