// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func (l *loader) checkElection(at document.Path, c *schema.Component) {
	e, path := c.Election, at.With("election")
	if e == nil {
		return
	}
	if authorities := l.authorities(c); len(authorities) > 0 && !slices.Contains(authorities, schema.AuthorityMiddleware) {
		l.wrong(path, "is for a component whose authority is middleware: with authority %s the engine decides which pod "+
			"writes", authorities[0])
	}
	if !slices.ContainsFunc(c.Roles, func(r schema.Role) bool { return r.Access == platformv1.RoleReadWrite }) {
		l.wrong(path, "is for a component with a role that takes writes: give one of the roles the access ReadWrite")
	}
	attributes := slices.Collect(maps.Keys(c.Probe.Attributes))
	for _, of := range []struct{ field, attribute string }{{"member", e.Member}, {"primary", e.Primary},
		{"epoch", e.Epoch}} {
		l.oneOf(path.With(of.field), of.attribute, "attribute of the probe", slices.Clone(attributes))
	}
	if l.hasManySets(c) {
		l.wrong(path, "is for a component that has one set: where it has several, the members of all of them elect, and a "+
			"majority of one decides nothing")
	}
}

// hasManySets says whether a component can have more than one set.
func (l *loader) hasManySets(c *schema.Component) bool {
	ranges := []*schema.Range{c.Sets}
	for _, t := range l.components.Topologies {
		for _, tc := range t.Components {
			if tc.Name == c.Name {
				ranges = append(ranges, tc.Sets)
			}
		}
	}
	return slices.ContainsFunc(ranges, func(r *schema.Range) bool { return r != nil && r.Max > 1 })
}
