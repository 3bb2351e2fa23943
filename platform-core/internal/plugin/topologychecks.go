// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func (l *loader) checkTopologies() {
	components := names(l.components.Components.Components, func(c schema.Component) string { return c.Name })
	used := map[string]bool{}
	for i, t := range l.components.Topologies {
		path := document.Path{"topologies"}.Index(i).With("components")
		unique(l, path, t.Components, func(c schema.TopologyComponent) string { return c.Name })
		if !slices.ContainsFunc(t.Components, func(c schema.TopologyComponent) bool { return !c.Optional }) {
			l.wrong(path, "are all optional: an instance would be nothing")
		}
		for j, c := range t.Components {
			l.oneOf(path.Index(j).With("name"), c.Name, "component", slices.Clone(components))
			used[c.Name] = true
			if k := slices.Index(components, c.Name); k >= 0 {
				l.checkNarrower(path.Index(j), &l.components.Components.Components[k], &c)
			}
		}
		l.checkUpdateOrder(document.Path{"topologies"}.Index(i).With("updateOrder"), &t)
	}
	topologies := names(l.components.Topologies, func(t schema.Topology) string { return t.Name })
	for i, t := range l.components.Topologies {
		for j, name := range t.From {
			path := document.Path{"topologies"}.Index(i).With("from").Index(j)
			l.oneOf(path, name, "topology", slices.Clone(topologies))
			if name == t.Name {
				l.wrong(path, "is the topology itself: name others")
			}
		}
	}
	for i, c := range l.components.Credentials {
		for j, name := range c.Topologies {
			l.oneOf(document.Path{"credentials"}.Index(i).With("topologies").Index(j), name, "topology",
				slices.Clone(topologies))
		}
		for j, name := range c.PeerTopologies {
			path := document.Path{"credentials"}.Index(i).With("peerTopologies").Index(j)
			l.oneOf(path, name, "topology", slices.Clone(topologies))
			if !c.IsFor(name) {
				l.wrong(path, "is a topology that does not have this credential: name it in topologies as well, or take it out")
			}
		}
	}
	for i, name := range components {
		if !used[name] {
			l.wrong(componentPath(i), "is part of no topology: add %q to one, or take it out", name)
		}
	}
}

// checkUpdateOrder: components of the topology, each at one place.
func (l *loader) checkUpdateOrder(path document.Path, t *schema.Topology) {
	unique(l, path, t.UpdateOrder, func(name string) string { return name })
	for i, name := range t.UpdateOrder {
		l.oneOf(path.Index(i), name, "component of this topology",
			names(t.Components, func(c schema.TopologyComponent) string { return c.Name }))
	}
}

// checkNeeds: a component waits for others of the same topology, and in the end for one that waits for none.
func (l *loader) checkNeeds() {
	all := l.components.Components.Components
	known := names(all, func(c schema.Component) string { return c.Name })
	needs := map[string][]string{}
	for i, c := range all {
		needs[c.Name] = c.Needs
		path := componentPath(i, "needs")
		unique(l, path, c.Needs, func(name string) string { return name })
		for j, name := range c.Needs {
			l.oneOf(path.Index(j), name, "component", slices.Clone(known))
			for _, t := range l.components.Topologies {
				if slices.Contains(known, name) && t.Has(c.Name) && !t.Always(name) {
					l.wrong(path.Index(j), "names %q, which topology %q has not, or not always: it would wait for ever", name, t.Name)
				}
			}
		}
	}
	for i, c := range all {
		// Each cycle is told once, at its first component.
		if cycle := cycleFrom(c.Name, needs); len(cycle) > 0 && cycle[0] == slices.MinFunc(cycle, byIndex(known)) {
			l.wrong(componentPath(i, "needs"), "is a circle: %s need each other, and none would start",
				strings.Join(cycle, ", "))
		}
	}
}

// checkNarrower: a topology takes nothing that the component itself does not.
func (l *loader) checkNarrower(path document.Path, component *schema.Component, c *schema.TopologyComponent) {
	within := func(path document.Path, own *schema.Range, whole schema.Range) {
		if own == nil {
			return
		}
		l.checkRange(path, *own)
		for n := own.Min; n <= min(own.Max, placeholder.MaxPeers); n++ {
			if own.Allows(n) && !whole.Allows(n) {
				l.warn(PartComponents, componentsKey, l.components.document.Line(path),
					"%s allows %d, which component %q does not: it takes %s, and a topology can only narrow that", path, n,
					component.Name, whole)
				return
			}
		}
	}
	sets := schema.Range{Default: 1, Min: 1, Max: 1}
	if component.Sets != nil {
		sets = *component.Sets
	}
	within(path.With("sets"), c.Sets, sets)
	within(path.With("replicas"), c.Replicas, component.Replicas)
}

// Alone says whether no set of a component can have more than one pod in a topology.
func (b *Bundle) Alone(component, topology string) bool {
	c, known := b.Component(component)
	t, found := b.Topology(topology)
	if !known || !found {
		return false
	}
	for _, tc := range t.Components {
		if tc.Name == component {
			_, replicas := c.Limits(tc)
			return replicas.Max < 2
		}
	}
	return false
}

func byIndex(order []string) func(a, b string) int {
	return func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }
}

// cycleFrom returns the way from a component back to itself; nil when there is none.
func cycleFrom(start string, needs map[string][]string) []string {
	seen := map[string]bool{}
	var walk func(name string) []string
	walk = func(name string) []string {
		for _, next := range needs[name] {
			if next == start {
				return []string{name}
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if way := walk(next); way != nil {
				return append([]string{name}, way...)
			}
		}
		return nil
	}
	return walk(start)
}
