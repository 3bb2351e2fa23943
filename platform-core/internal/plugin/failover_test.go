// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"
)

// declaredFailover is redis with a failover and a type of entities, and what is changed of that.
func declaredFailover(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := strings.NewReplacer(
		"      version: \"'redis_version'", "      attributes:\n        offset: \"'master_repl_offset' in fields ? fields['master_repl_offset'] : '0'\"\n        lag: \"'0'\"\n      version: \"'redis_version'",
		"    parameters: redis\n    cred", "    actions:\n      - {name: promote, command: [a]}\n      - {name: follow, command: [a]}\n      - {name: show-user, command: [a]}\n      - {name: set-user, command: [a]}\n      - {name: drop-user, command: [a]}\n    failover:\n      order: int(attributes['offset'])\n      lagAttribute: lag\n      promote: promote\n      follow: follow\n    parameters: redis\n    cred",
		"topologies:\n", "entities:\n  - type: acl-user\n    component: redis\n    role: primary\n    actions: {observe: show-user, create: set-user, update: set-user, delete: drop-user}\n    parameters: user\ntopologies:\n",
	).Replace(sources[PartComponents].Data[components])
	if old != "" && !strings.Contains(text, old) {
		t.Fatalf("there is no %q", old)
	}
	sources[PartComponents].Data[components] = strings.Replace(text, old, new, 1)
	sources[PartParams].Data["user.yaml"] = "defaults: {rules: on}\n"
	sources[PartParams].Data["user.cue"] = "#Parameters: {\n\trules?: string\n}\n"
	bundle, errs := Load(sources)
	return errs, bundle
}

func TestFailoverAndEntities(t *testing.T) {
	errs, b := declaredFailover(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	if c.Failover.Seconds() != 2 || c.Failover.RejoinAction() != "follow" {
		t.Errorf("got %+v", c.Failover)
	}
	notes := strings.Join(b.NotYet(), "\n")
	for _, want := range []string{`entity "acl-user" of component "redis" is declared, which is checked and not yet kept`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	if plain := loadRedis(t).NotYet(); len(plain) != 0 {
		t.Errorf("without declarations: %v", plain)
	}
}

// An output of the action that measures is an attribute.
func TestMeasuredOrder(t *testing.T) {
	old := "{name: drop-user, command: [a]}\n    failover:\n      order: int(attributes['offset'])\n      lagAttribute: lag\n"
	errs, b := declaredFailover(t, old, "{name: drop-user, command: [a], outputs: {seen: stdout}}\n    failover:\n      order: int(attributes['seen'])\n      lagAttribute: seen\n"+
		"      inSync: role == 'replica' && attributes['lag'] == '0'\n      measure: drop-user\n      followerArgs: [--replicaof, '${primary.fqdn}', '6379']\n")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c, _ := b.Component("redis")
	if got, err := OrderOf("int(attributes['seen'])", "replica", map[string]string{"seen": "42"}); err != nil || got != 42 || c.Failover == nil {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := IsInSync("role == 'replica' && attributes['lag'] == '0'", "replica", map[string]string{"lag": "0"}); err != nil || !got {
		t.Errorf("got %t, %v", got, err)
	}
	if _, err := OrderOf("int(attributes['seen'])", "replica", nil); err == nil || !strings.Contains(err.Error(), "seen") {
		t.Errorf("an attribute that is not there: %v", err)
	}
}

func TestBrokenFailoverAndEntities(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"authority":           {"authority: engine", "authority: middleware", "is for a component whose authority is engine"},
		"no order":            {"      order: int(attributes['offset'])\n", "", "order is missing"},
		"order of text":       {"order: int(attributes['offset'])", "order: attributes['offset']", "must give a whole number"},
		"order of nothing":    {"order: int(attributes['offset'])", "order: int(fields['offset'])", "known here: role, attributes"},
		"order of all":        {"order: int(attributes['offset'])", "order: size(attributes)", "must name each attribute"},
		"attribute of order":  {"order: int(attributes['offset'])", "order: int(attributes['age'])", `names the attribute "age", which is not there: there is lag, offset`},
		"attribute of lag":    {"lagAttribute: lag", "lagAttribute: age", `names the attribute "age"`},
		"after":               {"lagAttribute: lag", "afterSeconds: 0", "a whole number from 1 to 600"},
		"action's name":       {"promote: promote", "promote: Promote Now", "small letters"},
		"promote":             {"promote: promote", "promote: lift", `names the action of component "redis" "lift", which is not there: there is drop-user, follow, promote, set-user, show-user`},
		"follow":              {"follow: follow", "follow: lift", `names the action of component "redis" "lift"`},
		"rejoin":              {"follow: follow", "follow: follow\n      rejoin: lift", `names the action of component "redis" "lift"`},
		"parameter":           {"{name: promote, command: [a]}", `{name: promote, command: [a, "${parameters.force}"], parameters: {force: string}}`, `takes the parameter "force": nobody would give it one`},
		"judged action":       {"{name: promote, command: [a]}", "{name: promote, command: [a], success: exitCode == 1}", "goes by its exit code alone"},
		"ordered":             {"    failover:\n", "    podManagementPolicy: OrderedReady\n    failover:\n", "podManagementPolicy Parallel"},
		"switchover":          {"    failover:\n", "    switchover: {action: drop-user, roles: [replica]}\n    failover:\n", "cannot both be there"},
		"sync of text":        {"lagAttribute: lag", "inSync: role", "must give true or false"},
		"follower's text":     {"lagAttribute: lag", "followerArgs: ['${primary.name}']", "primary.name"},
		"writer's text":       {"lagAttribute: lag", "writerArgs: ['${primary.fqdn}']", "primary.fqdn"},
		"durability":          {"lagAttribute: lag", "durability: Eternal", "Asynchronous"},
		"measure":             {"lagAttribute: lag", "measure: lift", `names the action of component "redis" "lift"`},
		"handover":            {"lagAttribute: lag", "handover: lift", `names the action of component "redis" "lift"`},
		"observe":             {"observe: show-user", "observe: lift", `names the action of component "redis" "lift"`},
		"update":              {"update: set-user", "update: lift", `names the action of component "redis" "lift"`},
		"create":              {"create: set-user", "create: lift", `names the action of component "redis" "lift"`},
		"delete":              {"delete: drop-user", "delete: lift", `names the action of component "redis" "lift"`},
		"nobody writes":       {"access: ReadWrite", "access: ReadOnly", "give one of the roles the access ReadWrite"},
		"nobody follows":      {"      - name: replica\n        access: ReadOnly\n", "", "give one of the roles the access ReadOnly or None"},
		"entity twice":        {"entities:\n", "entities:\n  - {type: acl-user, component: redis, actions: {observe: follow, create: follow, delete: follow}}\n", "names must differ"},
		"entity's component":  {"    component: redis\n    role: primary\n", "    component: redi\n    role: primary\n", `names the component "redi"`},
		"entity's role":       {"    component: redis\n    role: primary\n", "    component: redis\n    role: boss\n", `names the role "boss"`},
		"entity's observer":   {"observe: show-user, ", "", "observe is missing"},
		"entity's parameters": {"    parameters: user\n", "    parameters: topic\n", `names the parameter set "topic"`},
		"component's set":     {"    parameters: user\n", "    parameters: redis\n", "which a component has"},
		"unused set":          {"    parameters: user\n", "", "no component and no entity uses this parameter set"},
	} {
		errs, _ := declaredFailover(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}

func TestDynamicOfAnEntity(t *testing.T) {
	sources := redisSources(t)
	sources[PartComponents].Data[components] = strings.Replace(sources[PartComponents].Data[components], "topologies:\n",
		"entities:\n  - {type: user, component: redis, actions: {observe: a, create: a, delete: a}, parameters: user}\ntopologies:\n", 1)
	sources[PartComponents].Data[components] = strings.Replace(sources[PartComponents].Data[components], "    parameters: redis\n", "    actions: [{name: a, command: [a]}]\n    parameters: redis\n", 1)
	sources[PartParams].Data["user.yaml"] = "dynamic: [rules]\n"
	sources[PartParams].Data["user.cue"] = "#Parameters: {\n\trules?: string\n}\n"
	if _, errs := Load(sources); len(errs) != 1 || !strings.Contains(errs[0].Message, "dynamic is for a component") {
		t.Errorf("got %v", errs)
	}
}
