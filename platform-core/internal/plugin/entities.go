// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// rolesOf returns the roles of the pods that are asked about a type of entities; empty for any pod.
func rolesOf(c *schema.Component, e *schema.Entity) []string {
	var roles []string
	for _, role := range c.Roles {
		if e.Role == role.Name || e.Role == "" && role.Access == platformv1.RoleReadWrite {
			roles = append(roles, role.Name)
		}
	}
	return roles
}

// Entity returns a type of entities of a topology, and the roles of the pods that are asked about it; no roles for any
// pod.
func (b *Bundle) Entity(name string) (e *schema.Entity, roles []string, ok bool) {
	for i := range b.Components.Entities {
		if e := &b.Components.Entities[i]; e.Type == name {
			c, _ := b.Component(e.Component)
			if e.Pods == schema.EntityEach {
				return e, nil, true
			}
			return e, rolesOf(c, e), true
		}
	}
	return nil, nil, false
}

// EntityTypes are the types that there are, in order.
func (b *Bundle) EntityTypes() []string {
	types := names(b.Components.Entities, func(e schema.Entity) string { return e.Type })
	slices.Sort(types)
	return slices.Compact(types)
}

// EntityParameters returns all parameters of an object of the type: what the user set, over the plugin's defaults. The
// errors are sentences.
func (b *Bundle) EntityParameters(e *schema.Entity, app placeholder.App, user platformv1.Parameters) (map[string]string,
	[]error) {
	file := b.parameters[e.Parameters]
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(user)) {
		message := fmt.Sprintf("parameter %q cannot be set: entities of type %q have no parameters", name, e.Type)
		if file != nil {
			message = file.check(app.Version, name, string(user[name]))
		}
		if message != "" {
			errs = append(errs, ParameterError{Name: name, Value: string(user[name]), Message: message})
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	inForce, err := inForce(file, placeholder.Values{App: app}, user)
	if err != nil {
		return nil, []error{err}
	}
	return inForce, nil
}

// planEntities adds what the ops agent needs to know of the component's entities.
func (b *Bundle) planEntities(p *plan.Plan, c *schema.Component, v placeholder.Values) {
	if d := c.Driver; d != nil {
		p.Driver = &plan.Driver{Protocol: d.Protocol, Address: d.Address, TLS: d.TLS && v.App.TLS,
			EntitiesFile: d.EntitiesFile}
		if credential, ok := b.Credential(d.Credential); ok {
			p.Driver.Username = credential.Username
			p.Driver.Password = &plan.SecretRef{Credential: d.Credential, Key: SecretKeyPassword}
		}
		b.planElsewhere(p.Driver, d, v)
	}
	for _, e := range b.Components.Entities {
		if e.Component == c.Name {
			p.Entities = append(p.Entities, plan.EntityType{Type: e.Type, Kind: e.Driver, Actions: e.Actions})
		}
	}
}

// planElsewhere adds where the driver finds what is not in its pod, and who it is there.
func (b *Bundle) planElsewhere(p *plan.Driver, d *schema.Driver, v placeholder.Values) {
	if len(d.Settings) > 0 {
		p.Settings = map[string]string{}
		for _, name := range d.Settings {
			p.Settings[name] = v.Params[name]
		}
		p.Username, p.Account = "", &plan.SecretRef{Credential: d.Account, Key: SecretKeyPassword}
	}
	if credential, ok := b.Credential(d.CA); ok && (!credential.Supplied || slices.Contains(v.App.Supplied, d.CA)) {
		p.CA = &plan.SecretRef{Credential: d.CA, Key: SecretKeyPassword}
	}
}

// checkElsewhere: a driver has either an address in its pod, or all that its protocol needs to find what is not there.
func (l *loader) checkElsewhere(path document.Path, c *schema.Component) {
	d, protocol := c.Driver, plan.DriverFor(c.Driver.Protocol)
	needs := protocol.Settings
	if d.CA != "" && (len(needs) > 0 || protocol.Authorities) {
		l.oneOf(path.With("ca"), d.CA, "credential of the component", slices.Clone(c.Credentials))
	}
	if len(needs) == 0 {
		switch {
		case d.Address == "":
			l.wrong(path, "has no address: add that of the process within the pod")
		case len(d.Settings) > 0 || d.Account != "" || d.CA != "" && !protocol.Authorities:
			l.wrong(path, "has settings, account or ca, which are for what is not in the pod, and the process of %s is there: "+
				"take them out", d.Protocol)
		}
		return
	}
	if d.Address != "" || d.TLS {
		l.wrong(path,
			"has address or tls, which are for a process in the pod, and what speaks %s is not there: take them out", d.Protocol)
	}
	if has := slices.Sorted(slices.Values(d.Settings)); !slices.Equal(has, needs) {
		l.wrong(path.With("settings"), "must be %s: the driver for %s needs them, and knows no others",
			strings.Join(needs, ", "), d.Protocol)
	}
	l.oneOf(path.With("account"), d.Account, "credential of the component", l.certain(c.Credentials))
	if d.Credential == "" {
		l.wrong(path, "has no credential: add that of the account")
	}
	if file := l.parameters[c.Parameters]; file != nil {
		for _, name := range d.Settings {
			l.oneOf(path.With("settings"), name, "parameter", l.parameterNames(file))
		}
	}
}

func (l *loader) checkDriver(path document.Path, c *schema.Component) {
	d := c.Driver
	if d == nil {
		return
	}
	if known := plan.DriverProtocols(); !slices.Contains(known, d.Protocol) {
		l.oneOf(path.With("protocol"), d.Protocol, "protocol", known)
		return
	}
	l.checkElsewhere(path, c)
	if d.Credential != "" {
		l.oneOf(path.With("credential"), d.Credential, "credential of the component", l.certain(c.Credentials))
	}
	if d.TLS && c.TLS == nil {
		l.wrong(path.With("tls"), "is for a component that can speak TLS: add tls, or take it out")
	}
	kept := slices.ContainsFunc(l.components.Entities,
		func(e schema.Entity) bool { return e.Component == c.Name && e.Driver != "" })
	asked := slices.ContainsFunc(c.Actions, func(a plan.Action) bool { return a.Query != nil })
	if told := c.Monitoring != nil && len(c.Monitoring.Queries) > 0; !kept && !asked && !told {
		l.wrong(path, "is used by no entity, action or metric: add an entity of component %q with a driver, an action with "+
			"a query or monitoring.queries, or take it out", c.Name)
	}
	if d.EntitiesFile != "" && !plan.DriverFor(d.Protocol).Forgets {
		l.wrong(path.With("entitiesFile"), "is for a middleware that forgets what it had when it is restarted, and this "+
			"one does not: take it out")
	}
}

func (l *loader) checkEntities() {
	for i := range l.components.Entities {
		e := &l.components.Entities[i]
		if first := slices.IndexFunc(l.components.Entities[:i],
			func(o schema.Entity) bool { return o.Type == e.Type && l.together(o.Component, e.Component) }); first >= 0 {
			l.wrong(document.Path{"entities"}.Index(i), "has the name %q of %s, and a topology has both: names must differ",
				e.Type, document.Path{"entities"}.Index(first))
		}
	}
	for i := range l.components.Entities {
		l.checkEntity(document.Path{"entities"}.Index(i), &l.components.Entities[i])
	}
}

func (l *loader) checkEntity(path document.Path, e *schema.Entity) {
	all := l.components.Components.Components
	if err := constraint.CheckTextConstraint(e.Names); err != nil {
		l.wrong(path.With("names"), "%v", err)
	}
	parameters := l.checkEntityParameters(path.With("parameters"), e)
	known := names(all, func(c schema.Component) string { return c.Name })
	l.oneOf(path.With("component"), e.Component, "component", known)
	index := slices.IndexFunc(all, func(c schema.Component) bool { return c.Name == e.Component })
	if index < 0 {
		return
	}
	c := &all[index]
	switch {
	case e.Role != "" && e.Pods == schema.EntityEach:
		l.wrong(path.With("role"), "is of the pod that is asked, and each of them is: take it out, or pods")
	case e.Role != "":
		l.oneOf(path.With("role"), e.Role, "role", names(c.Roles, func(r schema.Role) string { return r.Name }))
	case e.Pods != schema.EntityEach && len(c.Roles) > 0 && len(rolesOf(c, e)) == 0:
		l.wrong(path, "has no role, and no role of component %q takes writes: name the one whose pods are asked", c.Name)
	}
	switch {
	case (e.Driver == "") == (e.Actions == nil):
		l.wrong(path, "must have either a driver or actions")
	case e.Actions != nil:
		l.checkEntityActions(path, c, e, parameters)
	case c.Driver == nil:
		l.wrong(path.With("driver"), "needs a driver of component %q: add it there", c.Name)
	default:
		l.checkEntityDriver(path, c, e, parameters)
	}
}

// checkEntityDriver: what users can say must be what the driver knows.
func (l *loader) checkEntityDriver(path document.Path, c *schema.Component, e *schema.Entity, parameters []string) {
	kinds := plan.DriverFor(c.Driver.Protocol).Kinds
	kind, known := kinds[e.Driver]
	if !known {
		l.oneOf(path.With("driver"), e.Driver, "kind of the driver for "+c.Driver.Protocol, slices.Collect(maps.Keys(kinds)))
		return
	}
	for _, name := range parameters {
		if !slices.Contains(kind.Parameters, name) {
			l.wrong(path.With("parameters"), "have %q, which the driver for %s does not take for %q: it takes %s", name,
				c.Driver.Protocol, e.Driver, strings.Join(kind.Parameters, ", "))
		}
	}
	if e.Password != "" && !kind.Password {
		l.wrong(path.With("password"), "is not for %q: take it out", e.Driver)
	}
}

// checkEntityParameters returns the names of the parameters in all versions.
func (l *loader) checkEntityParameters(path document.Path, e *schema.Entity) []string {
	if e.Parameters == "" {
		return nil
	}
	set, ok := l.parameters[e.Parameters]
	if _, broken := l.part(PartParams)[e.Parameters+".yaml"]; !ok && !broken {
		l.oneOf(path, e.Parameters, "parameter set", l.parameterSetNames())
	}
	if slices.ContainsFunc(l.components.Components.Components,
		func(c schema.Component) bool { return c.Parameters == e.Parameters }) {
		l.wrong(path, "names the parameter set %q, which a component has: give the entity one of its own", e.Parameters)
	}
	if !ok {
		return nil
	}
	wrong := func(key, format string, args ...any) {
		l.fail(PartParams, set.file, set.document.Line(document.Path{key}), format, args...)
	}
	for key, entries := range map[string]int{"dynamic": len(set.set.Dynamic), "resetValues": len(set.set.ResetValues),
		"lists": len(set.set.Lists)} {
		if entries > 0 {
			wrong(key, "%s is for a component, and this set is of the entity %q: take it out", key, e.Type)
		}
	}
	all := l.parameterNames(set)
	for _, name := range []string{plan.EntityName, plan.EntityPassword} {
		if slices.Contains(all, name) {
			l.wrong(path, "names the parameter set %q, which has %q: every entity has a field for that, take it out",
				e.Parameters, name)
		}
	}
	for _, version := range l.manifest.SupportedVersions {
		if _, err := inForce(set, placeholder.Values{
			App: placeholder.App{Name: "sample", Namespace: "sample", Version: version}}, nil); err != nil {
			wrong("defaults", "with the defaults alone, in version %s: %v", version, err)
		}
	}
	return all
}

// checkEntityActions: each parameter must come to something, and a password must not be on a command line.
func (l *loader) checkEntityActions(path document.Path, c *schema.Component, e *schema.Entity, parameters []string) {
	at, a := path.With("actions"), e.Actions
	known := append([]string{plan.EntityName}, parameters...)
	if e.Password != "" {
		known = append(known, plan.EntityPassword)
	}
	for _, one := range []struct {
		key, name string
		takes     []string
	}{{"list", a.List, nil}, {"create", a.Create, known}, {"update", a.Update, known},
		{"delete", a.Delete, []string{plan.EntityName}}} {
		if one.name == "" {
			continue
		}
		here := at.With(one.key)
		index := slices.IndexFunc(c.Actions, func(a plan.Action) bool { return a.Name == one.name })
		if index < 0 {
			l.checkActionName(here, c, one.name)
			continue
		}
		action := &c.Actions[index]
		for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
			if !slices.Contains(one.takes, name) {
				l.wrong(here, "names the action %q, which takes %q: nothing gives it that", one.name, name)
			}
		}
		for _, name := range one.takes {
			if _, takes := action.Parameters[name]; !takes {
				l.wrong(here, "names the action %q, which does not take %q: it would come to nothing", one.name, name)
			}
		}
		if one.key == "list" && action.Query != nil {
			l.wrong(here, "names the action %q, which is a query: it gives rows, and what is listed is an object by name, "+
				"make it a command", one.name)
		}
		if isWordOf(action.Command, plan.EntityPassword) {
			l.wrong(here, "names the action %q, which has the password on its command line, where others can see it: put it "+
				"into env", one.name)
		}
	}
}

func isWordOf(command []string, parameter string) bool {
	return slices.ContainsFunc(command, func(word string) bool {
		name, ok := plan.ParameterOf(word)
		return ok && name == parameter
	})
}
