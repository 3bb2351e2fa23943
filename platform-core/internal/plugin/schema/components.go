// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// AccessOf says who may reach a port; empty when there is none.
func (c *Component) AccessOf(port string) PortAccess {
	i := slices.IndexFunc(c.Ports, func(p Port) bool { return p.Name == port })
	if i < 0 {
		return ""
	}
	return cmp.Or(c.Ports[i].Access, PortClient)
}

// Limits of the sets of a component in a topology, and of the pods in each.
func (c *Component) Limits(tc TopologyComponent) (sets, replicas Range) {
	sets, replicas = Range{Default: 1, Min: 1, Max: 1}, c.Replicas
	if c.Sets != nil {
		sets = *c.Sets
	}
	if tc.Replicas != nil {
		replicas = *tc.Replicas
	}
	return sets, replicas
}

// Single says that the component has exactly one set, which is called platformv1.DefaultSet.
func (c *Component) Single() bool { return c.Sets == nil || c.Sets.Max == 1 }

// MaxMounts is the largest number of mounts of a component.
const MaxMounts = 8

// MountFor returns the mount that a volume of a name is for, with that name and the path where the volume comes, and
// the index of the mount; -1 where there is none.
func (c *Component) MountFor(name string) (Mount, int) {
	if i := slices.IndexFunc(c.Mounts, func(m Mount) bool { return m.Name == name && !m.Each }); i >= 0 {
		return c.Mounts[i], i
	}
	for i, m := range c.Mounts {
		if folder, of := strings.CutPrefix(name, m.Name+"-"); m.Each && of && folder != "" {
			m.Name, m.Path = name, path.Join(m.Path, folder)
			return m, i
		}
	}
	return Mount{}, -1
}

// RequiredMounts are the names of those that there are no pods without.
func (c *Component) RequiredMounts() []string {
	var required []string
	for _, m := range c.Mounts {
		if m.Required {
			required = append(required, m.Name)
		}
	}
	return required
}
