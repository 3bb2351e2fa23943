// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
)

// declaredFailover is redis with a failover, and what is changed of that.
func declaredFailover(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := strings.NewReplacer(
		"      version: \"'redis_version'", "      attributes:\n        offset: \"'master_repl_offset' in fields ? "+
			"fields['master_repl_offset'] : '0'\"\n        lag: \"'0'\"\n      version: \"'redis_version'",
		"    parameters: redis\n    cred", "    actions:\n      - {name: promote, command: [a]}\n      - {name: follow, "+
			"command: [a]}\n      - {name: gauge, command: [a]}\n    failover:\n      order: int(attributes['offset'])\n      "+
			"lagAttribute: lag\n      promote: promote\n      follow: follow\n    parameters: redis\n    cred",
	).Replace(sources[PartComponents].Data[components])
	if old != "" && !strings.Contains(text, old) {
		t.Fatalf("there is no %q", old)
	}
	sources[PartComponents].Data[components] = strings.Replace(text, old, new, 1)
	bundle, errs := Load(sources)
	return errs, bundle
}

func TestFailover(t *testing.T) {
	errs, b := declaredFailover(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	if c.Failover.Seconds() != 2 {
		t.Errorf("got %+v", c.Failover)
	}
}

// An output of the action that measures is an attribute.
func TestMeasuredOrder(t *testing.T) {
	old := "{name: gauge, command: [a]}\n    failover:\n      order: int(attributes['offset'])\n      lagAttribute: lag\n"
	errs, b := declaredFailover(t, old, "{name: gauge, command: [a], outputs: {seen: stdout}}\n    failover:\n      "+
		"order: int(attributes['seen'])\n      lagAttribute: seen\n"+
		"      inSync: role == 'replica' && attributes['lag'] == '0'\n      measure: gauge\n      replicaArgs: "+
		"[--replicaof, '${primary.fqdn}', '6379']\n")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	if got, err := reportexpr.Number("int(attributes['seen'])", "replica", map[string]string{"seen": "42"}); err != nil ||
		got != 42 || c.Failover == nil {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := reportexpr.Truth("role == 'replica' && attributes['lag'] == '0'", "replica",
		map[string]string{"lag": "0"}); err != nil || !got {
		t.Errorf("got %t, %v", got, err)
	}
	_, err := reportexpr.Number("int(attributes['seen'])", "replica", nil)
	if err == nil || !strings.Contains(err.Error(), "seen") {
		t.Errorf("an attribute that is not there: %v", err)
	}
}

func TestBrokenFailover(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"authority":     {"authority: engine", "authority: middleware", "is for a component whose authority is engine"},
		"no order":      {"      order: int(attributes['offset'])\n", "", "order is missing"},
		"order of text": {"order: int(attributes['offset'])", "order: attributes['offset']", "must give a whole number"},
		"order of nothing": {"order: int(attributes['offset'])", "order: int(fields['offset'])",
			"known here: role, attributes"},
		"order of all": {"order: int(attributes['offset'])", "order: size(attributes)", "must name each attribute"},
		"attribute of order": {"order: int(attributes['offset'])", "order: int(attributes['age'])",
			`names the attribute "age", which is not there: there is lag, offset`},
		"attribute of lag": {"lagAttribute: lag", "lagAttribute: age", `names the attribute "age"`},
		"after":            {"lagAttribute: lag", "afterSeconds: 0", "a whole number from 1 to 600"},
		"action's name":    {"promote: promote", "promote: Promote Now", "small letters"},
		"promote": {"promote: promote", "promote: lift",
			`names the action of component "redis" "lift", which is not there: there is follow, gauge, promote`},
		"follow": {"follow: follow", "follow: lift", `names the action of component "redis" "lift"`},
		"parameter": {"{name: promote, command: [a]}",
			`{name: promote, command: [a, "${parameters.force}"], parameters: {force: string}}`,
			`takes the parameter "force": nobody would give it one`},
		"promote by query": {"{name: promote, command: [a]}", "{name: promote, query: {statement: a}}",
			"which is a query: the process manager runs it and has no driver"},
		"judged action": {"{name: promote, command: [a]}", "{name: promote, command: [a], success: exitCode == 1}",
			"goes by its exit code alone"},
		"ordered": {"    failover:\n", "    podManagementPolicy: OrderedReady\n    failover:\n",
			"podManagementPolicy Parallel"},
		"switchover": {"    failover:\n", "    switchover: {action: drop-user, roles: [replica]}\n    failover:\n",
			"cannot both be there"},
		"sync of text":    {"lagAttribute: lag", "inSync: role", "must give true or false"},
		"follower's text": {"lagAttribute: lag", "replicaArgs: ['${primary.name}']", "primary.name"},
		"writer's text":   {"lagAttribute: lag", "primaryArgs: ['${primary.fqdn}']", "primary.fqdn"},
		"copies": {"lagAttribute: lag", "synchronousReplicas: {parameter: copies}",
			"is for a failover with an action updateMembers"},
		"copies of nothing": {"lagAttribute: lag", "updateMembers: promote\n      synchronousReplicas: {parameter: copies}",
			`names the parameter "copies", which is not in the schema`},
		"updateMembers": {"lagAttribute: lag", "updateMembers: lift", `names the action of component "redis" "lift"`},
		"measure":       {"lagAttribute: lag", "measure: lift", `names the action of component "redis" "lift"`},
		"handover":      {"lagAttribute: lag", "handover: lift", `names the action of component "redis" "lift"`},
		"before nothing": {"lagAttribute: lag", "before: [{component: redis, action: gauge}]",
			"is for a failover with a handover"},
		"before itself": {"lagAttribute: lag", "handover: gauge\n      before: [{component: redis, action: gauge}]",
			`names the other component "redis", which is not there`},
		"no primary": {"access: ReadWrite", "access: ReadOnly", "give one of the roles the access ReadWrite"},
		"nobody follows": {"      - name: replica\n        access: ReadOnly\n", "",
			"give one of the roles the access ReadOnly or None"},
	} {
		errs, _ := declaredFailover(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}
