// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"testing"
)

func TestComponentsInUpdateOrder(t *testing.T) {
	all := func(string) bool { return true }
	components := []TopologyComponent{{Name: "a"}, {Name: "b"}, {Name: "c", Optional: true}, {Name: "d"}}
	for name, test := range map[string]struct {
		order  []string
		named  func(string) bool
		want   []string
		before map[string][]string
	}{
		"no order":        {nil, all, []string{"a", "b", "c", "d"}, nil},
		"some have one":   {[]string{"d", "b"}, all, []string{"a", "c", "d", "b"}, map[string][]string{"b": {"d"}}},
		"one is left out": {[]string{"c", "d", "a"}, func(string) bool { return false }, []string{"b", "d", "a"}, nil},
		"all have one": {[]string{"d", "c", "b", "a"}, all, []string{"d", "c", "b", "a"},
			map[string][]string{"c": {"d"}, "b": {"d", "c"}, "a": {"d", "c", "b"}}},
	} {
		topology := &Topology{Components: components, UpdateOrder: test.order}
		var got []string
		for _, c := range topology.Wanted(test.named) {
			got = append(got, c.Name)
			want, listed := test.before[c.Name]
			if before := topology.UpdatedBefore(c.Name); listed && !slices.Equal(before, want) ||
				!slices.Contains(test.order, c.Name) && len(before) > 0 {
				t.Errorf("%s: %v are updated before %s, want %v", name, before, c.Name, want)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
	if components[0].Name != "a" {
		t.Error("the topology has another order since")
	}
}
