// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"
)

// declaredFailover is redis with a failover, and what is changed of that.
func declaredFailover(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := strings.NewReplacer(
		"      version: \"'redis_version'", "      attributes:\n        offset: \"'master_repl_offset' in fields ? fields['master_repl_offset'] : '0'\"\n        lag: \"'0'\"\n      version: \"'redis_version'",
		"    parameters: redis\n    cred", "    actions:\n      - {name: promote, command: [a]}\n      - {name: follow, command: [a]}\n    failover:\n      order: int(attributes['offset'])\n      lagAttribute: lag\n      promote: promote\n      follow: follow\n    parameters: redis\n    cred",
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
	if c.Failover.Seconds() != 2 || c.Failover.RejoinAction() != "follow" {
		t.Errorf("got %+v", c.Failover)
	}
	notes := strings.Join(b.NotYet(), "\n")
	for _, want := range []string{`component "redis" declares a failover after 2 s (promote, follow, follow), which is checked and not yet carried out`} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	if plain := loadRedis(t).NotYet(); len(plain) != 0 {
		t.Errorf("without declarations: %v", plain)
	}
}

func TestBrokenFailover(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"authority":          {"authority: engine", "authority: middleware", "is for a component whose authority is engine"},
		"no order":           {"      order: int(attributes['offset'])\n", "", "order is missing"},
		"order of text":      {"order: int(attributes['offset'])", "order: attributes['offset']", "must give a whole number"},
		"order of nothing":   {"order: int(attributes['offset'])", "order: int(fields['offset'])", "known here: role, attributes"},
		"order of all":       {"order: int(attributes['offset'])", "order: size(attributes)", "must name each attribute"},
		"attribute of order": {"order: int(attributes['offset'])", "order: int(attributes['age'])", `names the attribute of the probe "age", which is not there: there is lag, offset`},
		"attribute of lag":   {"lagAttribute: lag", "lagAttribute: age", `names the attribute of the probe "age"`},
		"after":              {"lagAttribute: lag", "afterSeconds: 0", "a whole number from 1 to 600"},
		"action's name":      {"promote: promote", "promote: Promote Now", "small letters"},
		"promote":            {"promote: promote", "promote: lift", `names the action of component "redis" "lift", which is not there: there is follow, promote`},
		"follow":             {"follow: follow", "follow: lift", `names the action of component "redis" "lift"`},
		"rejoin":             {"follow: follow", "follow: follow\n      rejoin: lift", `names the action of component "redis" "lift"`},
		"nobody writes":      {"access: ReadWrite", "access: ReadOnly", "give one of the roles the access ReadWrite"},
		"nobody follows":     {"      - name: replica\n        access: ReadOnly\n", "", "give one of the roles the access ReadOnly or None"},
	} {
		errs, _ := declaredFailover(t, tc.old, tc.new)
		if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Message, tc.says) && e.Line > 0 }) {
			t.Errorf("%s: got %v; want %q", name, errs, tc.says)
		}
	}
}
