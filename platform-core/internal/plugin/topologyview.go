// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// In returns the bundle as a topology has it: each component with the authority and the sets that it has there and what
// is in force under that, and the credentials, types of entities and Operation templates that are for the topology. A
// bundle that has no such topology is returned as it is.
func (b *Bundle) In(topology string) *Bundle {
	if view, ok := b.views[topology]; ok {
		return view
	}
	return b
}

// makeViews makes what In returns. A view is a bundle of its own that shares all that is compiled.
func (b *Bundle) makeViews() {
	views := map[string]*Bundle{}
	for i := range b.Components.Topologies {
		t := &b.Components.Topologies[i]
		view := *b
		view.Components.Entities = slices.DeleteFunc(slices.Clone(b.Components.Entities),
			func(e schema.Entity) bool { return !t.Has(e.Component) })
		view.Components.Credentials = slices.DeleteFunc(slices.Clone(b.Components.Credentials),
			func(c schema.Credential) bool { return !c.IsFor(t.Name) })
		view.Operations = maps.Clone(b.Operations)
		maps.DeleteFunc(view.Operations, func(_ string, o optemplate.Template) bool {
			return len(o.Topologies) > 0 && !slices.Contains(o.Topologies, t.Name)
		})
		// Components keep their places, by which their templates are found.
		view.Components.Components = slices.Clone(b.Components.Components)
		for j := range view.Components.Components {
			c := &view.Components.Components[j]
			if k := slices.IndexFunc(t.Components, func(tc schema.TopologyComponent) bool { return tc.Name == c.Name }); k >= 0 {
				c.Authority = cmp.Or(t.Components[k].Authority, c.Authority)
				c.Sets = cmp.Or(t.Components[k].Sets, c.Sets)
			}
			c.Credentials = slices.DeleteFunc(slices.Clone(c.Credentials), func(name string) bool {
				credential, ok := b.Credential(name)
				return ok && !credential.IsFor(t.Name)
			})
			settle(c)
		}
		views[t.Name] = &view
	}
	b.views = views
}

// supplied are the names of the credentials that only a user can supply.
func (b *Bundle) supplied() []string {
	var names []string
	for _, c := range b.Components.Credentials {
		if c.Supplied {
			names = append(names, c.Name)
		}
	}
	return names
}

// settle leaves of failover, switchover, election and membership what goes with the authority, and takes out the
// actions that are for the other alone.
func settle(c *schema.Component) {
	var idle []string
	if f := c.Failover; f != nil && c.Authority == schema.AuthorityMiddleware {
		idle, c.Failover = append(f.Actions(), f.Measure, f.Handover), nil
	}
	if s := c.Switchover; s != nil && c.Authority == schema.AuthorityEngine {
		idle, c.Switchover = append(idle, s.Action), nil
	}
	if m := c.Membership; m != nil && c.Authority == schema.AuthorityEngine {
		idle, c.Membership = append(idle, m.Check, m.Action), nil
	}
	if c.Authority == schema.AuthorityEngine {
		c.Election = nil
	}
	if len(idle) > 0 {
		c.Actions = slices.DeleteFunc(slices.Clone(c.Actions),
			func(a plan.Action) bool { return slices.Contains(idle, a.Name) })
	}
}

// authorities are those that a component has in its topologies.
func (l *loader) authorities(c *schema.Component) []schema.Authority {
	var all []schema.Authority
	for _, t := range l.components.Topologies {
		for _, tc := range t.Components {
			if has := cmp.Or(tc.Authority, c.Authority); tc.Name == c.Name && !slices.Contains(all, has) {
				all = append(all, has)
			}
		}
	}
	return all
}

// checkCredentials says which credential a plan uses that the component does not have where the plan is for.
func checkCredentials(c *schema.Component, p *plan.Plan) error {
	var refs []*plan.SecretRef
	for _, list := range environments(p) {
		for _, env := range list {
			refs = append(refs, env.Secret)
		}
	}
	for _, file := range p.Files {
		for _, entry := range file.Entries {
			refs = append(refs, entry.Secret)
		}
	}
	if p.Driver != nil {
		refs = append(refs, p.Driver.Password, p.Driver.Account, p.Driver.CA)
	}
	for _, ref := range refs {
		if ref != nil && !slices.Contains(c.Credentials, ref.Credential) {
			return fmt.Errorf("credential %q is used, and its topologies do not name this one: add it there, or a when to "+
				"what uses it", ref.Credential)
		}
	}
	return nil
}
