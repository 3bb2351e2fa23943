// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// etcdFolder is a plugin that has constants.
var etcdFolder = filepath.Join("..", "..", "..", "database-operator", "plugins", "etcd", "1.0.0")

func parsed(t *testing.T, text string) *document.Document {
	t.Helper()
	doc, problems := document.Parse(text)
	if len(problems) > 0 {
		t.Fatalf("the document cannot be read: %v", problems)
	}
	return doc
}

func TestConstantsAreWhatWouldBeWrittenOut(t *testing.T) {
	const source = `
let:
  url: "http${app.tls ? 's' : ''}://127.0.0.1"
  tool: [tool, "--url=${let.url}:80", "${app.tls ? ['--tls'] : []}"]
  loud: ["${let.tool}", --verbose]
  who:
    - {name: WHO, value: "${pod.name}"}
    - {name: URL, value: "${let.url}", when: app.tls}
components:
  - process:
      command: ["${let.loud}", run, "${let.url}/a?b=${let.url}", "$${let.url} ${app.name}"]
      env:
        - ${let.who}
        - {name: MORE, value: "<${ let.url }>"}
    probe: {command: "${let.tool}", env: "${let.who}"}
`
	const written = `
components:
  - process:
      command:
        - tool
        - "--url=http${app.tls ? 's' : ''}://127.0.0.1:80"
        - "${app.tls ? ['--tls'] : []}"
        - --verbose
        - run
        - "http${app.tls ? 's' : ''}://127.0.0.1/a?b=http${app.tls ? 's' : ''}://127.0.0.1"
        - $${let.url} ${app.name}
      env:
        - {name: WHO, value: "${pod.name}"}
        - {name: URL, value: "http${app.tls ? 's' : ''}://127.0.0.1", when: app.tls}
        - {name: MORE, value: "<http${app.tls ? 's' : ''}://127.0.0.1>"}
    probe:
      command: [tool, "--url=http${app.tls ? 's' : ''}://127.0.0.1:80", "${app.tls ? ['--tls'] : []}"]
      env:
        - {name: WHO, value: "${pod.name}"}
        - {name: URL, value: "http${app.tls ? 's' : ''}://127.0.0.1", when: app.tls}
`
	doc, problems := expandConstants(parsed(t, source))
	if len(problems) > 0 {
		t.Fatalf("the constants are refused: %v", problems)
	}
	if want := parsed(t, written).Value(); !reflect.DeepEqual(doc.Value(), want) {
		t.Errorf("the document is\n%v\nwant\n%v", doc.Value(), want)
	}
	command := document.Path{"components", "0", "process", "command"}
	for i, want := range []string{"tool: [", "tool: [", "tool: [", "loud:", "run", "run", "run"} {
		if line := lineOf(t, source, want); doc.Line(command.Index(i)) != line {
			t.Errorf("%s is said to be on line %d; it is on line %d", command.Index(i), doc.Line(command.Index(i)), line)
		}
	}
}

func TestBrokenConstants(t *testing.T) {
	const use = "\ncomponents: [{process: {command: [\"${let.a}\"]}}]"
	for name, tc := range map[string]struct{ source, at, says string }{
		"no map":        {"let: [a]" + use, "let", "let must be a map of constants"},
		"empty":         {"let: {}" + use, "let", "let must be a map of constants"},
		"odd name":      {"let:\n  a: x\n  big-one: y" + use, "big-one", "let.big-one has a name that is not allowed"},
		"a number":      {"let:\n  a: 5" + use, "a: 5", "let.a must be a text (put it in quotes), a list of texts"},
		"a map":         {"let:\n  a: {b: c}" + use, "a:", "let.a must be a text"},
		"nothing in it": {"let:\n  a: []" + use, "a:", "let.a is an empty list"},
		"a number in a list": {
			"let:\n  a:\n    - x\n    - 5" + use, "- 5", "let.a[1] must be a text (put it in quotes), or a variable"},
		"a variable without a name": {
			"let:\n  a: [{value: x}]" + use, "a:", "let.a[0] has no name"},
		"ends with a dollar": {"let:\n  a: x$" + use, "a:", `let.a ends with "$"`},
		"not closed":         {"let:\n  a: \"${app.name\"" + use, "a:", "let.a cannot be read: a placeholder is not closed"},
		"unknown": {
			"let:\n  b: x\ncomponents: [{process: {command: [\"${let.a}\", \"${let.b}\"]}}]", "command",
			`components[0].process.command[0] uses the constant "a", which is not there: there is b`},
		"unknown, and there is none": {
			"components: [{process: {command: [\"${let.a}\"]}}]", "components", `which is not there: there is none`},
		"not used": {"let:\n  a: x\n  c: y" + use, "c: y", "let.c is not used by any component"},
		"used by such as one": {"let:\n  a: x\n  c: y\n  d: [\"${let.c}\"]" + use, "c: y",
			"let.c is not used by any component"},
		"a circle": {
			"let:\n  a: [\"${let.b}\"]\n  b: [x, \"${let.c}\"]\n  c: [\"${let.a}\"]" + use, "a: [",
			"let.a is made of itself: a, b, c, a"},
		"a circle of texts": {"let:\n  a: x${let.a}" + use, "a: x", "let.a is made of itself: a, a"},
		"a list in a text": {
			"let:\n  a: [x]\ncomponents: [{process: {command: [\"--x=${let.a}\"]}}]", "command",
			`components[0].process.command[0] uses the constant "a", which is a list, within a text`},
		"texts for variables": {
			"let:\n  a: [x]\ncomponents:\n- process:\n    env: [\"${let.a}\"]", "env", `components[0].process.env[0] uses the ` +
				`constant "a", which has a text in it: here stands a list of variables`},
		"variables for texts": {
			"let:\n  a: [{name: X, value: y}]\ncomponents:\n- process:\n    command: \"${let.a}\"", "command",
			`components[0].process.command ` +
				`uses the constant "a", which has a variable in it: here stands a list of texts`},
		"in an expression": {
			"let:\n  a: x\ncomponents: [{process: {command: [\"${let.a}\", \"${let.a + 'y'}\"]}}]", "command",
			`components[0].process.command[1] has the placeholder "${let.a + 'y'}": a constant stands alone`},
		"in another field": {
			"let:\n  a: x\ncomponents: [{process: {command: [\"${let.a}\"], dir: \"${let.a}\"}}]", "command",
			`components[0].process.dir uses the constant "a": constants stand in lists of texts`},
		"outside of components": {
			"let:\n  a: x" + use + "\ntopologies: [\"${let.a}\"]", "topologies",
			`topologies[0] uses the constant "a": only components`},
	} {
		t.Run(name, func(t *testing.T) {
			doc, problems := expandConstants(parsed(t, tc.source))
			if doc != nil || len(problems) == 0 {
				t.Fatalf("it is taken; want %q", tc.says)
			}
			if problems[0].Line != lineOf(t, tc.source, tc.at) || !strings.Contains(problems[0].Message, tc.says) {
				t.Errorf("the first of %d problems is %+v; want %q on line %d", len(problems), problems[0], tc.says,
					lineOf(t, tc.source, tc.at))
			}
		})
	}
}

func TestConstantsThatGrowWithoutBound(t *testing.T) {
	source := "let:\n  a0: [x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		one, next := string(rune('0'+i)), string(rune('1'+i))
		source += "  a" + next + ": [" + strings.Repeat("\"${let.a"+one+"}\", ", 8) + "x]\n"
	}
	_, problems := expandConstants(parsed(t, source+"components: [{process: {command: [\"${let.a9}\"]}}]"))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "adds more than 1048576 characters") {
		t.Errorf("the problems are %v; want the one that there is too much", problems)
	}
}

// What is made of a constant is checked where it is used, and told of where it is written.
func TestConstantsAreCheckedAtLoad(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, at, says string }{
		"an expression": {"${component.headless}", "${component.head}", "MEMBER_DOMAIN", "undefined field 'head'"},
		"a field":       {"{name: MEMBER_NAME, value:", "{name: MEMBER_NAME, valu:", "MEMBER_NAME", `did you mean "value"?`},
		"a secret": {
			"value: \"${component.headless}\"}", "secret: {credential: root, key: password}}", "MEMBER_DOMAIN",
			`components[0].actions[0].env[1].secret.credential names the credential of this component "root"`},
		"a name twice": {
			"{name: MEMBER_DATA, ", "{name: MEMBER_CA, ", "{name: MEMBER_CA, value: /data",
			`has the name "MEMBER_CA" of components[0].process.env[3]`},
	} {
		t.Run(name, func(t *testing.T) {
			sources, errs := LoadFolder(os.DirFS(etcdFolder), "etcd")
			if len(errs) > 0 {
				t.Fatalf("the etcd plugin cannot be read: %v", errs)
			}
			edit(t, sources, PartComponents, components, tc.old, tc.new)
			_, errs = Load(sources)
			if len(errs) == 0 {
				t.Fatal("the plugin is taken")
			}
			line := lineOf(t, sources[PartComponents].Data[components], tc.at)
			if errs[0].Line != line || !strings.Contains(errs[0].Message, tc.says) {
				t.Errorf("the first of %d errors is %v; want %q on line %d", len(errs), errs[0], tc.says, line)
			}
		})
	}
}
