// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
)

// Has says whether instances of the topology can have a component.
func (t *Topology) Has(component string) bool {
	return slices.ContainsFunc(t.Components, func(c TopologyComponent) bool { return c.Name == component })
}

// Always says whether every instance of the topology has a component.
func (t *Topology) Always(component string) bool {
	return slices.ContainsFunc(t.Components, func(c TopologyComponent) bool { return c.Name == component && !c.Optional })
}

// Wanted are the components of an instance whose user names these ones: those without a place in the update order
// first, then the others in that order.
func (t *Topology) Wanted(named func(component string) bool) []TopologyComponent {
	wanted := slices.DeleteFunc(slices.Clone(t.Components),
		func(c TopologyComponent) bool { return c.Optional && !named(c.Name) })
	slices.SortStableFunc(wanted, func(a, b TopologyComponent) int {
		return slices.Index(t.UpdateOrder, a.Name) - slices.Index(t.UpdateOrder, b.Name)
	})
	return wanted
}

// UpdatedBefore are the components that are updated before a component.
func (t *Topology) UpdatedBefore(component string) []string {
	return t.UpdateOrder[:max(slices.Index(t.UpdateOrder, component), 0)]
}

// IsFor says whether a topology has the credential.
func (c *Credential) IsFor(topology string) bool {
	return len(c.Topologies) == 0 || slices.Contains(c.Topologies, topology)
}
