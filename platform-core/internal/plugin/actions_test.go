// SPDX-License-Identifier: Apache-2.0

package plugin

import (
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
		return broken{part: PartComponents, key: components, old: probeLine, new: strings.Replace(declared, old, new, 1) + probeLine, at: at, says: says}
	}
	run(t, map[string]broken{
		"no command":               c(`[redis-cli, hand-over, "${parameters.to}", "${app.name}", "${pod.name}"]`, "[]", "command: []", "at least one"),
		"parameter in a word":      c(`"${parameters.to}"`, `"--to=${parameters.to}"`, "command: [redis-cli, hand-over", "undeclared reference to 'parameters'"),
		"parameter as the command": c(`[redis-cli, hand-over, "${parameters.to}"`, `["${parameters.to}"`, `command: ["${parameters.to}"`, "what is run is never for the caller to say"),
		"parameter unknown":        c(`"${parameters.to}"`, `"${parameters.from}"`, "command: [redis-cli, hand-over", `stands for the parameter "from", which is not declared`),
		"parameter not used":       c(`          why: string`, "          why: string\n          more: string", "more: string", "is used nowhere"),
		"constraint is none":       c(`          why: string`, "          why: strin", "why: strin", "is no CUE constraint"),
		"constraint of no text":    c(`          why: string`, "          why: int", "why: int", "a parameter is text"),
		"secret of another":        c("credential: default", "credential: admin", "- {name: REDISCLI_AUTH", `names the credential of this component "admin"`),
		"success is no truth":      c(`stdout == 'OK\n'`, "stdout", "success: stdout", "it must give bool"),
		"output is no text":        c("string(json.offset)", "exitCode", "offset: exitCode", "it must give string"),
		"output of nothing":        c("string(json.offset)", "result", "offset: result", "known here: stdout, stderr, exitCode, fields, json"),
		"two of a name":            c("    switchover:", "      - {name: hand-over, command: ['true']}\n    switchover:", "- {name: hand-over", "names must differ"),
		"too long":                 c("        success:", "        timeoutSeconds: 100000\n        success:", "timeoutSeconds: 100000", "86400"),
		"action unknown":           c("action: hand-over", "action: jump", "action: jump", `names the action "jump"`),
		"role unknown":             c("roles: [replica]", "roles: [follower]", "roles: [follower]", `names the role "follower"`),
		"role that writes":         c("roles: [replica]", "roles: [primary]", "roles: [primary]", "takes writes already"),
		"when is no truth":         c("target.attributes['offset'] == source.attributes['offset']", "target.name", "when: \"target.name", "must give true or false"),
		"when sees the instance":   c("target.attributes['offset'] == source.attributes['offset']", "app.tls", "when: \"app.tls", "undeclared reference to 'app'"),
		"value sees the instance":  c("${target.fqdn}", "${app.name}", "parameters: {to", "known here: source, target"),
		"value is missing":         c(`, why: "because of ${source.name}"}`, "}", "parameters: {to", `lacks "why"`),
		"value too many":           c(`{to: `, `{of: a, to: `, "parameters: {of", `is no parameter of action "hand-over"`),
	})
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
	if got, want := strings.Join(action.Command, " "), "redis-cli hand-over ${parameters.to} a$$${b ${pod.name}"; !ok || got != want {
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
