// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// twoAuthorities is redis with a second topology, in which its members elect, and a credential that only that one has.
func twoAuthorities(t *testing.T, old, new string) ([]LoadError, *Bundle) {
	t.Helper()
	sources := redisSources(t)
	text := strings.NewReplacer(
		"    roles:\n      - name: primary\n        access: ReadWrite\n",
		"    roles:\n      - name: primary\n        access: ReadWrite\n      - {name: second, access: ReadOnly}\n",
		"          - key: dir\n", "          - {key: masterauth, secret: {credential: elect, key: password}, when: "+
			"\"app.topology == 'elected'\"}\n          - key: dir\n",
		"    parameters: redis\n    credentials: [default]", "    actions:\n      - {name: promote, command: [a]}\n      - "+
			"{name: follow, command: [a]}\n      - {name: elect, command: [a], env: [{name: P, secret: {credential: elect, "+
			"key: password}}]}\n      - {name: other, command: [a]}\n"+
			"    failover: {order: '1', promote: promote, follow: follow}\n    switchover: {action: elect, roles: [second]}\n "+
			"   parameters: redis\n    credentials: [default, elect]",
		"credentials:\n  - name: default", "  - name: elected\n    components: [{name: redis, authority: "+
			"middleware}]\ncredentials:\n  - {name: elect, username: elect, topologies: [elected]}\n  - name: default",
	).Replace(sources[PartComponents].Data[components])
	if old != "" && !strings.Contains(text, old) {
		t.Fatalf("there is no %q in %s", old, text)
	}
	sources[PartComponents].Data[components] = strings.Replace(text, old, new, 1)
	bundle, errs := Load(sources)
	return errs, bundle
}

func TestATopologyHasWhatGoesWithItsAuthority(t *testing.T) {
	errs, b := twoAuthorities(t, "", "")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for topology, want := range map[string]struct {
		authority   schema.Authority
		failover    bool
		actions     []string
		credentials []string
	}{
		"standalone": {schema.AuthorityEngine, true, []string{"promote", "follow", "other"}, []string{"default"}},
		"elected":    {schema.AuthorityMiddleware, false, []string{"elect", "other"}, []string{"default", "elect"}},
	} {
		view := b.In(topology)
		c, _ := view.Component("redis")
		actions := names(c.Actions, func(a plan.Action) string { return a.Name })
		if c.Authority != want.authority || (c.Failover != nil) != want.failover || (c.Switchover == nil) != want.failover ||
			!slices.Equal(actions, want.actions) {
			t.Errorf("%s: authority %s, failover %v, switchover %v, actions %v", topology, c.Authority, c.Failover, c.Switchover,
				actions)
		}
		has := names(view.Components.Credentials, func(c schema.Credential) string { return c.Name })
		slices.Sort(has)
		if !slices.Equal(c.Credentials, want.credentials) || !slices.Equal(has, want.credentials) {
			t.Errorf("%s: credentials %v and %v, want %v", topology, c.Credentials, has, want.credentials)
		}
		values := sampleValues(c, topology, "7.0", 1<<30)
		p, err := view.RenderPlan("redis", values)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(p.Actions, func(a plan.Action) string { return a.Name }); !slices.Equal(got, want.actions) {
			t.Errorf("%s: the plan has the actions %v", topology, got)
		}
	}
	if b.In("nowhere") != b {
		t.Error("an unknown topology has a view")
	}
	if c, _ := b.Component("redis"); c.Failover == nil || c.Switchover == nil {
		t.Error("the bundle itself has lost one")
	}
}

func TestBrokenTopologies(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, says string }{
		"both under one authority": {", authority: middleware}", "}", "and switchover cannot both be there"},
		"nobody fails over": {"authority: engine", "authority: middleware",
			"is for a component whose authority is engine"},
		"from nowhere": {"    components: [{name: redis, authority",
			"    from: [cluster]\n    components: [{name: redis, authority", `names the topology "cluster", which is not there`},
		"from itself": {"    components: [{name: redis, authority",
			"    from: [elected]\n    components: [{name: redis, authority", "is the topology itself"},
		"unknown authority": {", authority: middleware}", ", authority: nobody}", "authority"},
		"credential for nothing": {"topologies: [elected]", "topologies: [selected]",
			`names the topology "selected", which is not there`},
		"shared in nothing": {"topologies: [elected]", "topologies: [elected], peerTopologies: [selected]",
			`names the topology "selected", which is not there`},
		"shared where it is not": {"topologies: [elected]", "topologies: [elected], peerTopologies: [standalone]",
			"is a topology that does not have this credential"},
		"credential elsewhere": {", when: \"app.topology == 'elected'\"", "",
			`credential "elect" is used, and its topologies do not name this one`},
	} {
		t.Run(name, func(t *testing.T) {
			errs, _ := twoAuthorities(t, tc.old, tc.new)
			if !slices.ContainsFunc(errs, func(e LoadError) bool { return strings.Contains(e.Error(), tc.says) }) {
				t.Errorf("got %v, want one that says %q", errs, tc.says)
			}
		})
	}
}
