// SPDX-License-Identifier: Apache-2.0

package newkind

import (
	"slices"
	"testing"
)

// What is read of the plugins that are there.
func TestFactsOfPlugins(t *testing.T) {
	root := copied(t, "database-operator/plugins", "database-operator/config/plugins", "common-operator/plugins",
		"common-operator/config/plugins")
	const database, failover, volume = "database-operator", "Failover", "VerticalScaleVolume"
	for name, c := range map[string]struct {
		operator, plugin, topology string
		component, role, size      string
		most                       int32
		otherwise                  string
		not                        []string
	}{
		"alone": {database, "redis", "", "redis", "primary", "1Gi", 0, "no",
			[]string{"HorizontalScale", failover}},
		"replicas":                {database, "redis", "replication", "redis", "primary", "1Gi", 5, "", nil},
		"an operation of its own": {database, "redis", "sentinel", "redis", "primary", "1Gi", 5, "", nil},
		"sets":                    {database, "redis", "cluster", "node", "", "1Gi", 5, "replicas", nil},
		"members that elect":      {database, "etcd", "", "etcd", "", "2Gi", 5, "", []string{"Reload", failover}},
		"no volume":               {"common-operator", "nginx", "web", "nginx", "", "", 100, "", []string{volume, failover}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := readPlugin(root, c.operator, c.plugin, c.topology)
			if err != nil {
				t.Fatal(err)
			}
			var most int32
			if f.Replicas != nil {
				most = f.Replicas.Max
			}
			if f.Component != c.component || f.Role != c.role || f.Size != c.size || most != c.most ||
				f.Otherwise != c.otherwise {
				t.Errorf("got %+v, with %d pods at most", f, most)
			}
			var not []string
			for _, o := range f.Operations {
				if len(o.Is) > 3 && o.Is[:3] == "no:" {
					not = append(not, o.Name)
				}
			}
			if len(f.Operations) != 12 || !slices.Equal(not, c.not) {
				t.Errorf("it has %d operations but %v, want all but %v", len(f.Operations), not, c.not)
			}
		})
	}
}

func TestPlural(t *testing.T) {
	for noun, want := range map[string]string{"etcd": "etcds", "rediscluster": "redisclusters", "policy": "policies",
		"gateway": "gateways",
		"index":   "indexes", "redis": "redises", "patch": "patches", "y": "ys"} {
		if got := plural(noun); got != want {
			t.Errorf("%s: got %s, want %s", noun, got, want)
		}
	}
}
