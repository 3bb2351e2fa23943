// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// clusterSources are those of the whole plugin redis, but for the backups of its clusters.
func clusterSources(t testing.TB) map[Part]Source {
	t.Helper()
	sources, errs := LoadFolder(os.DirFS(redisFolder), "redis")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	text := sources[PartComponents].Data[componentsKey]
	begin := strings.LastIndex(text, "    backups:\n")
	end := strings.LastIndex(text, "    conditions:\n")
	if begin < 0 || end < begin {
		t.Fatalf("the last component of redis has its backups from %d to %d", begin, end)
	}
	edit(t, sources, PartComponents, componentsKey, text[begin:end], "")
	return sources
}

func TestMembershipParameters(t *testing.T) {
	b, errs := Load(clusterSources(t))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	node, _ := b.Component("node")
	values := placeholder.Values{Component: placeholder.Component{Name: "node", Headless: "c-node-headless.n.svc",
		MemoryLimit: 1 << 20}}
	got, err := b.MembershipParameters(node, values,
		Members{Sets: [][]string{{"c-node-0-0"}, {"c-node-1-0"}}, Leaving: []string{"c-node-2-0"}})
	const want = `{"shards": [["c-node-0-0"],["c-node-1-0"]], "leaving": ["c-node-2-0"], "domain": ` +
		`"c-node-headless.n.svc", "memory": 1048576}`
	if err != nil || got["shape"] != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
	if got, err = b.MembershipParameters(node, values, Members{Sets: [][]string{{"a"}}}); err != nil ||
		!strings.Contains(got["shape"], `"leaving": []`) {
		t.Errorf("nobody leaves: %v, %v", got, err)
	}
}

// A plugin whose pods begin one cluster is told whether there has been one.
func TestMembershipParametersTellWhetherThereWasACluster(t *testing.T) {
	sources := clusterSources(t)
	edit(t, sources, PartComponents, componentsKey, `"memory": ${component.memoryLimit}${moves`,
		`"memory": ${component.memoryLimit}, "formed": ${formed}${moves`)
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	node, _ := b.Component("node")
	for _, formed := range []bool{false, true} {
		got, err := b.MembershipParameters(node, placeholder.Values{}, Members{Formed: formed})
		if want := fmt.Sprintf(`"formed": %t}`, formed); err != nil || !strings.HasSuffix(got["shape"], want) {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
}

// Where a topology gives a component the authority of the engine, nobody is a member of anything there.
func TestATopologyOfTheEngineHasNoMembership(t *testing.T) {
	sources, errs := LoadFolder(os.DirFS("../../../database-operator/plugins/mysql/1.0.0"), "mysql")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	b, errs := Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for topology, has := range map[string]bool{"standalone": false, "group": true} {
		c, _ := b.In(topology).Component("mysql")
		acts := slices.ContainsFunc(c.Actions,
			func(a plan.Action) bool { return a.Name == "reshape" || a.Name == "hand-over" })
		if (c.Membership != nil) != has || (c.Switchover != nil) != has || acts != has {
			t.Errorf("%s: membership %v, switchover %v, actions of them %t", topology, c.Membership, c.Switchover, acts)
		}
	}
}

func TestBindingOfATopology(t *testing.T) {
	b, errs := Load(clusterSources(t))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if of := b.Binding("cluster"); of == nil || of.Component != "node" {
		t.Errorf("clients of a cluster are told of %+v", of)
	}
	if of := b.Binding("replication"); of == nil || of.Component != "redis" {
		t.Errorf("clients of replicas are told of %+v", of)
	}
}

func TestBrokenMembership(t *testing.T) {
	for name, test := range map[string]struct{ old, new, says string }{
		"no such action": {"      check: look", "      check: peek",
			`names the action of component "node" "peek", which is not there`},
		"no phase": {"outputs: {phase: \"json[0].phase\", reason: \"json[0].reason\"}",
			"outputs: {reason: \"json[0].reason\"}", `has no output "phase"`},
		"parameter not given": {"        shape: '{", "        form: '{", `lacks "shape"`},
		"unknown placeholder": {"${leaving}", "${gone}", "undeclared reference to 'gone'"},
		"engine decides": {"  - name: node\n    authority: middleware", "  - name: node\n    authority: engine",
			"is for a component whose authority is middleware"},
		"one after the other": {"    podManagementPolicy: Parallel\n    resources:",
			"    podManagementPolicy: OrderedReady\n    resources:", "podManagementPolicy Parallel"},
		"cannot be scaled":   {"    sets: {default: 3,", "    scaling: Fixed\n    sets: {default: 3,", "can be scaled"},
		"binding of another": {"      component: node\n", "      component: redis\n", "which the topology has not"},
		"two of a topology": {"      - name: node\n    binding:", "      - name: node\n      - name: redis\n    binding:",
			`has the name ""`},
		"service of a binding": {"      port: redis\n      credential", "      port: bus\n      credential",
			`names the port of Service ""`},
	} {
		t.Run(name, func(t *testing.T) {
			sources := clusterSources(t)
			edit(t, sources, PartComponents, componentsKey, test.old, test.new)
			_, errs := Load(sources)
			for _, err := range errs {
				if strings.Contains(err.Error(), test.says) {
					return
				}
			}
			t.Errorf("got %v, want one that says %s", errs, test.says)
		})
	}
}
