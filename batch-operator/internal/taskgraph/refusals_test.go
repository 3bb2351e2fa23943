// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// place is where the artifacts are kept that one task of files hands on to another.
const place = "artifacts: {repositoryRef: {name: store}}\n"

const files = place + "tasks: [{name: make, script: {image: a, source: b}, artifacts: [{name: report, path: " +
	"/out/a}]}, " +
	"{name: use, dependsOn: [{name: make}], container: {image: a}, inputs: [{from: make.report, path: /in/report}]}]"

// What one object cannot tell the API server by itself is refused with its place in the spec and a sentence.
func TestRefusals(t *testing.T) {
	const call = "tasks: [{name: a, http: {url: 'http://x'}}]"
	manifest := func(text string) string { return "tasks: [{name: a, apply: {manifest: '" + text + "'}}]" }
	for title, c := range map[string]struct{ spec, want string }{
		"pattern": {"parameters: [{name: p, pattern: '[a'}]\n" + call,
			"spec.parameters[p].pattern is not a regular expression: "},
		"default of another type": {"parameters: [{name: p, type: int, default: many}]\n" + call,
			`spec.parameters[p].default is "many": it must be of type int`},
		"default of a bool": {"parameters: [{name: p, type: bool, default: 'yes'}]\n" + call,
			`spec.parameters[p].default is "yes": it must be of type bool`},
		"default of a number": {"parameters: [{name: p, type: number, default: '1e3'}]\n" + call,
			`spec.parameters[p].default is "1e3": it must be of type number`},
		"default against its pattern": {"parameters: [{name: p, pattern: '[a-z]+', default: A}]\n" + call,
			`spec.parameters[p].default is "A": it must match [a-z]+`},
		"argument against its pattern": {"parameters: [{name: p, pattern: '[a-z]+'}]\narguments: {p: ab1}\n" + call,
			`spec.arguments[p] is "ab1": it must match [a-z]+`},
		"argument without parameters": {"arguments: {p: a}\n" + call,
			"spec.arguments[p]: there is no such parameter: there are none"},
		"no argument": {"parameters: [{name: p}]\n" + call,
			`spec.arguments: parameter "p" has no default and needs an argument`},
		"no YAML":     {manifest("{a"), "spec.tasks[a].apply.manifest is not valid YAML: "},
		"two objects": {manifest("- {kind: A}"), "spec.tasks[a].apply.manifest is not valid YAML: "},
		"no name": {manifest("{apiVersion: v1, kind: ConfigMap}"),
			"spec.tasks[a].apply.manifest must be one object with apiVersion, kind and metadata.name"},
		"no kind": {manifest("{apiVersion: v1, metadata: {name: a}}"),
			"spec.tasks[a].apply.manifest must be one object with apiVersion, kind and metadata.name"},
		"an object elsewhere": {manifest("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}"),
			"spec.tasks[a].apply.manifest has a metadata.namespace: leave it out"},
		"a manifest of onExit": {call + "\nonExit: [{name: b, apply: {manifest: '{}'}}]",
			"spec.onExit[b].apply.manifest must be one object"},
		"cycle": {"tasks: [{name: a, dependsOn: [{name: b}], http: {url: 'http://x'}}, {name: b, dependsOn: [{name: a}], " +
			"http: {url: 'http://x'}}]", "spec.tasks: tasks depend on each other in a cycle: a depends on b depends on a"},
		"an unknown output": {"tasks: [{name: a, http: {url: 'http://x'}}, {name: b, dependsOn: [{name: a}], http: {url: " +
			"'http://x/${tasks.a.outputs.none}'}}]",
			"spec.tasks[b].http.url placeholder \"${tasks.a.outputs.none}\": undefined field 'none'"},
		"a task that it does not depend on": {"tasks: [{name: a, http: {url: 'http://x'}}, {name: b, http: {url: " +
			"'http://x/${tasks.a.phase}'}}]", "spec.tasks[b].http.url placeholder \"${tasks.a.phase}\": undefined field 'a'"},
		"an unknown parameter": {"tasks: [{name: a, http: {url: 'http://x/${parameters.p}'}}]",
			"spec.tasks[a].http.url placeholder \"${parameters.p}\": undefined field 'p'"},
		"no truth": {"tasks: [{name: a, when: '1', http: {url: 'http://x'}}]", "spec.tasks[a].when"},
		"another protocol": {"tasks: [{name: a, http: {url: 'ftp://x'}}]",
			"spec.tasks[a].http.url must begin with http:// or https://"},
		"artifacts without a repository": {strings.Replace(files, place, "", 1),
			"spec.tasks[make].artifacts need a BackupRepository where they are kept: name it in " +
				"spec.artifacts.repositoryRef"},
		"a repository without artifacts": {place + call, "spec.artifacts says where artifacts are kept, and nothing has any"},
		"an artifact of no task": {strings.Replace(files, "make.report", "none.report", 1),
			"spec.tasks[use].inputs[0].from names an artifact of the task \"none\", which is not there"},
		"an unknown artifact": {strings.Replace(files, "make.report", "make.other", 1),
			"spec.tasks[use].inputs[0].from names " +
				"the artifact \"other\", which task \"make\" does not have: it has report"},
		"an artifact of a task that may run later": {strings.Replace(files, "dependsOn: [{name: make}], ", "", 1),
			"spec.tasks[use].inputs[0].from names an artifact of task \"make\", which does not have to end before this one"},
		"a relative path": {strings.Replace(files, "/in/report", "report", 1),
			"spec.tasks[use].inputs[0].path is \"report\": it must be an absolute path"},
		"artifacts of a call": {strings.Replace(files, "script: {image: a, source: b}", "http: {url: 'http://x'}", 1),
			"spec.tasks[make].artifacts are files of a container"},
		"two artifacts at one path": {strings.Replace(files, "path: /out/a}]", "path: /out/a}, {name: b, path: /out/a}]", 1),
			"spec.tasks[make].artifacts[1].path is \"/out/a\", which another artifact or input has"},
		"an unknown output of the run": {call + "\noutputs: {o: tasks.a.outputs.none}",
			"spec.outputs.o is not a valid expression"},
	} {
		t.Run(title, func(t *testing.T) {
			wf := &batchv1.Workflow{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &wf.Spec); err != nil {
				t.Fatal(err)
			}
			_, err := Prepare(SourceOf(wf), nil, nil, enginetest.CheckTemplate)
			if err == nil {
				err = CheckArguments(wf.Spec.Parameters, wf.Spec.Arguments)
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that begins with %q", err, c.want)
			}
		})
	}
}
