// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// What is pinned here is in the status of instances that run: when an operator is upgraded, its engine renders them
// anew, and another revision would replace every pod of every instance, another digest restart every process. So a
// later engine has to give the same values for the same plugin and the same spec. Where only the engine
// changed and this test fails, the engine is wrong. The values may change with the plugin's own files alone, and
// once a version of the plugin is released these do not change.
const pinned = `
minimal: cache-redis-main
  revision ceb88ea822d5cd32
  digest   sha256:b3c78843e9915cb73dc6dd166801966c4befa0ec7da6eb655ce554029957a7c7
  restart  sha256:b3c78843e9915cb73dc6dd166801966c4befa0ec7da6eb655ce554029957a7c7
full: cache-redis-main
  revision ca966e4c5851b577
  digest   sha256:f297fd3d2bbd87182ed3af780a2bde1b55902e7d06725f9ff86b0f9272239cab
  restart  sha256:f297fd3d2bbd87182ed3af780a2bde1b55902e7d06725f9ff86b0f9272239cab
`

func TestRevisionsArePinned(t *testing.T) {
	got := "\n"
	for _, sample := range []string{"minimal", "full"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "database-operator", "plugins", "redis", "1.0.0", "testdata",
			sample+".in.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		app := &platformv1.Application{}
		if err := yaml.UnmarshalStrict(data, app); err != nil {
			t.Fatal(err)
		}
		for _, set := range output(t, redis(t), app).WorkloadSets {
			p, err := Plan(&platformv1.WorkloadSet{Spec: set.Spec})
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprintf("%s: %s\n  revision %s\n  digest   %s\n  restart  %s\n", sample, set.Name, set.Spec.Revision,
				p.Digest, p.RestartDigest)
		}
	}
	if got != pinned {
		t.Errorf("an upgrade of the operator would replace pods or restart processes; got:%swant:%s", got, pinned)
	}
}

// Entries that a reload takes over are in the digest and not in that of a restart; everything else is in both.
func TestDigestsOfDynamicEntries(t *testing.T) {
	b := redis(t, "lists:", "dynamic: [hz]\nlists:", "      # A server that ran",
		"      reload:\n        each: [redis-cli, CONFIG, SET]\n      # A server that ran")
	digests := func(name, value string) (digest, restart string, dynamic bool) {
		ws, _ := render(t, b, settings, application(component(func(c *platformv1.ApplicationComponent) {
			c.Parameters = platformv1.Parameters{name: platformv1.ParameterValue(value)}
		})))
		p, err := Plan(ws)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range p.Files[0].Entries {
			dynamic = dynamic || entry.Key == name && entry.Dynamic
		}
		return p.Digest, p.RestartDigest, dynamic
	}
	was, wasRestart, dynamic := digests("hz", "20")
	is, isRestart, _ := digests("hz", "30")
	if !dynamic || was == is || wasRestart != isRestart {
		t.Errorf("dynamic %v: digest %s to %s, restart %s to %s", dynamic, was, is, wasRestart, isRestart)
	}
	was, wasRestart, dynamic = digests("databases", "3")
	is, isRestart, _ = digests("databases", "4")
	if dynamic || was == is || wasRestart == isRestart {
		t.Errorf("static, dynamic %v: digest %s to %s, restart %s to %s", dynamic, was, is, wasRestart, isRestart)
	}
}

// Where nothing is dynamic the two are the same, with files and without.
func TestDigestsOfStaticPlans(t *testing.T) {
	for name, p := range map[string]plan.Plan{
		"no files":   {Process: plan.Process{Command: []string{"web"}}},
		"no entries": {Files: []plan.File{{Path: "/zeroinfra/config/a"}}},
		"static":     {Files: []plan.File{{Path: "/zeroinfra/config/a", Entries: []plan.Entry{{Key: "a"}}}}},
	} {
		if digest, restart := planDigests(&p); digest != restart {
			t.Errorf("%s: digest %s, restart %s", name, digest, restart)
		}
	}
}

// What a parameter goes back to restarts nothing, and is nothing to take over while no parameter is taken out.
func TestInitialValuesAreInNoDigest(t *testing.T) {
	digests := func(initial map[string]string) (string, string) {
		return planDigests(&plan.Plan{Process: plan.Process{Command: []string{"db"},
			Reload: &plan.Reload{Each: []string{"set"}, ResetValues: initial}}})
	}
	was, wasRestart := digests(nil)
	if is, isRestart := digests(map[string]string{"a": "1"}); was != is || wasRestart != isRestart {
		t.Errorf("digest %s to %s, restart %s to %s", was, is, wasRestart, isRestart)
	}
}

// Names that agents put in are in both digests wherever the domain is not the default, and no other domain is.
func TestDomainsAreInTheDigestsOfWhatHoldsNames(t *testing.T) {
	const usual, other = "a-db-headless.shop.svc.cluster.local", "a-db-headless.shop.svc.corp.example"
	for name, tc := range map[string]struct {
		plan  plan.Plan
		holds bool
	}{
		"none":       {plan.Plan{Process: plan.Process{Command: []string{"db", "${pod.name}"}}}, false},
		"a command":  {plan.Plan{Process: plan.Process{Command: []string{"db", "${pod.fqdn}"}}}, true},
		"a variable": {plan.Plan{Process: plan.Process{Env: []plan.EnvVar{{Name: "SELF", Value: "${pod.fqdn}"}}}}, true},
		"an entry": {plan.Plan{Files: []plan.File{
			{Entries: []plan.Entry{{Key: "announce", Args: []string{"${pod.fqdn}:1"}, Dynamic: true}}}}}, true},
		"a follower": {plan.Plan{Writing: &plan.Writing{ReplicaArgs: []string{"${primary.fqdn}"}}}, true},
	} {
		without, withoutRestart := planDigests(&tc.plan)
		tc.plan.Domain = usual
		if digest, restart := planDigests(&tc.plan); digest != without || restart != withoutRestart {
			t.Errorf("%s: the default domain is in the digests", name)
		}
		tc.plan.Domain = other
		if digest, restart := planDigests(&tc.plan); (digest != without) != tc.holds ||
			(restart != withoutRestart) != tc.holds {
			t.Errorf("%s: digest %s, restart %s, without a domain %s and %s", name, digest, restart, without, withoutRestart)
		}
	}
}
