// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// probeLine begins what stands behind them.
const probeLine = "    probe:\n      # INFO"

// declared are an action and a switchover as they may be added to the redis plugin.
const declared = `    actions:
      - name: hand-over
        command: [redis-cli, hand-over, "${parameters.to}", "${app.name}", "${pod.name}"]
        env:
          - {name: WHY, value: "${parameters.why}"}
          - {name: REDISCLI_AUTH, secret: {credential: default, key: password}}
        parameters:
          to: '=~"^[a-z0-9.-]+$" @allowed("a host")'
          why: string
        success: stdout == 'OK\n'
        outputs:
          offset: string(json.offset)
    switchover:
      action: hand-over
      roles: [replica]
      when: "target.attributes['offset'] == source.attributes['offset']"
      parameters: {to: "${target.fqdn}", why: "because of ${source.name}"}
`

func TestBrokenActions(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(declared, old, new, 1) +
			probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"no command": c(`[redis-cli, hand-over, "${parameters.to}", "${app.name}", "${pod.name}"]`, "[]",
			"command: []", "at least one"),
		"parameter in a word": c(`"${parameters.to}"`, `"--to=${parameters.to}"`, "command: [redis-cli, hand-over",
			"undeclared reference to 'parameters'"),
		"parameter as the command": c(`[redis-cli, hand-over, "${parameters.to}"`, `["${parameters.to}"`,
			`command: ["${parameters.to}"`, "what is run is never for the caller to say"),
		"parameter unknown": c(`"${parameters.to}"`, `"${parameters.from}"`, "command: [redis-cli, hand-over",
			`stands for the parameter "from", which is not declared`),
		"parameter not used": c(`          why: string`, "          why: string\n          more: string", "more: string",
			"is used nowhere"),
		"constraint is none":    c(`          why: string`, "          why: strin", "why: strin", "is no CUE constraint"),
		"constraint of no text": c(`          why: string`, "          why: int", "why: int", "a parameter is text"),
		"secret of another": c("credential: default", "credential: admin", "- {name: REDISCLI_AUTH",
			`names the credential of this component "admin"`),
		"success is no truth": c(`stdout == 'OK\n'`, "stdout", "success: stdout", "it must give bool"),
		"output is no text":   c("string(json.offset)", "exitCode", "offset: exitCode", "it must give string"),
		"output of nothing": c("string(json.offset)", "result", "offset: result",
			"known here: stdout, stderr, exitCode, fields, json"),
		"two of a name": c("    switchover:", "      - {name: hand-over, command: ['true']}\n    switchover:",
			"- {name: hand-over", "names must differ"),
		"too long": c("        success:", "        timeoutSeconds: 100000\n        success:",
			"timeoutSeconds: 100000", "86400"),
		"action unknown": c("action: hand-over", "action: jump", "action: jump", `names the action "jump"`),
		"role unknown": c("roles: [replica]", "roles: [follower]", "roles: [follower]",
			`names the role "follower"`),
		"role that writes": c("roles: [replica]", "roles: [primary]", "roles: [primary]", "takes writes already"),
		"when is no truth": c("target.attributes['offset'] == source.attributes['offset']", "target.name",
			"when: \"target.name", "must give true or false"),
		"when sees the instance": c("target.attributes['offset'] == source.attributes['offset']", "app.tls",
			"when: \"app.tls", "undeclared reference to 'app'"),
		"value sees the instance": c("${target.fqdn}", "${app.name}", "parameters: {to", "known here: source, target"),
		"value is missing":        c(`, why: "because of ${source.name}"}`, "}", "parameters: {to", `lacks "why"`),
		"value too many":          c(`{to: `, `{of: a, to: `, "parameters: {of", `is no parameter of action "hand-over"`),
	})
}

const queried = `    actions:
      - name: count
        query:
          statement: SELECT count(*) AS roles FROM pg_roles WHERE rolname = $1
          arguments: ["${parameters.role}", "${pod.name}"]
          database: postgres
        parameters: {role: string}
        outputs: {roles: "json[0].roles"}
`

func TestBrokenQueries(t *testing.T) {
	c := func(old, new, at, says string) broken {
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(queried, old, new, 1) +
			probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"a command, too": c("        query:", "        command: [a]\n        query:", "- name: count",
			"must have either a command or a query"),
		"neither": c("        query:\n          statement: SELECT count(*) AS roles FROM pg_roles WHERE "+
			"rolname = $1\n          arguments: [\"${parameters.role}\", \"${pod.name}\"]\n          database: postgres\n     "+
			"   parameters: {role: string}\n", "", "- name: count", "must have either a command or a query"),
		"a statement that grows": c("rolname = $1", "rolname = '${app.name}'", "statement:",
			"a placeholder is not allowed here"),
		"no statement": c("          statement: SELECT count(*) AS roles FROM pg_roles WHERE rolname = $1\n", "",
			"query:", "statement is missing"),
		"an argument unknown": c("parameters.role", "parameters.rule", "arguments:",
			`stands for the parameter "rule", which is not declared`),
		"an argument not used": c(`["${parameters.role}", "${pod.name}"]`, "[]", "parameters: {role",
			"the arguments of the query"),
		"an environment": c("        parameters:", "        env: [{name: A, value: b}]\n        parameters:",
			"env: [{name: A", "a query has none"),
	})
}

// A query needs somebody to ask.
func TestQueryOfNobody(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"no driver": {"    driver:\n      protocol: redis\n      address: 127.0.0.1:6379\n      tls: true\n      " +
			"credential: default\n      entitiesFile: /zeroinfra/config/users/entities.conf\n", "",
			"needs a driver of component \"redis\": add it there"},
		"other file": {"protocol: redis\n", "protocol: postgresql\n", "is for a middleware that forgets"},
	} {
		sources := redisSources(t)
		edit(t, sources, PartComponents, components, probeLine,
			strings.Replace(queried, "        parameters: {role: string}\n", "", 1)+probeLine)
		edit(t, sources, PartComponents, components, "${parameters.role}", "role")
		edit(t, sources, PartComponents, components, tc.old, tc.new)
		_, errs := Load(sources)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

func TestQueryInAPlan(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartComponents, components, probeLine, queried+probeLine)
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	p, err := b.RenderPlan("redis", sampleValues(c, "standalone", "7.0", 0))
	if err != nil {
		t.Fatal(err)
	}
	action, _ := p.Action("count")
	if got := strings.Join(action.Query.Arguments, " "); got != "${parameters.role} ${pod.name}" ||
		action.Query.Database != "postgres" {
		t.Errorf("got %+v", action.Query)
	}
}

// What the agents get of an action is ready but for the pod and the parameters.
func TestActionsInAPlan(t *testing.T) {
	sources := redisSources(t)
	edit(t, sources, PartComponents, components, probeLine, declared+probeLine)
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	values := sampleValues(c, "standalone", "7.0", 0)
	values.App.Name = "a$${b"
	p, err := b.RenderPlan("redis", values)
	if err != nil {
		t.Fatal(err)
	}
	action, ok := p.Action("hand-over")
	if got, want := strings.Join(action.Command, " "), "redis-cli hand-over ${parameters.to} a$$${b ${pod.name}"; !ok ||
		got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	if c.Switchover.Parameters["to"] != "${target.fqdn}" {
		t.Errorf("the switchover is %+v", c.Switchover)
	}
	for says, parameters := range map[string]map[string]string{
		"": {"to": "redis-1.redis", "why": ""},
		`parameter "to" of action "hand-over" is "a b": it must be a host`:   {"to": "a b", "why": ""},
		`parameter "why" of action "hand-over" is missing: it takes to, why`: {"to": "a"},
		`action "hand-over" has no parameter "x": it takes to, why`:          {"to": "a", "why": "", "x": ""},
	} {
		err := CheckActionParameters(action, parameters)
		if got := ""; err != nil && err.Error() != says || err == nil && got != says {
			t.Errorf("%v: got %v, want %q", parameters, err, says)
		}
	}
	if err := CheckActionParameters(&plan.Action{Name: "a"}, nil); err != nil {
		t.Error(err)
	}
}
