// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkServiceNames: the Services of all components of a topology share the names of the Application.
func (l *loader) checkServiceNames() {
	const application = "x"
	type holder struct {
		path      document.Path
		component string
	}
	taken := map[string][]holder{}
	for i, c := range l.components.Components.Components {
		name := HeadlessServiceName(application, c.Name)
		taken[name] = append(taken[name], holder{componentPath(i), c.Name})
	}
	for i, c := range l.components.Components.Components {
		for j, s := range c.Services {
			path := componentPath(i, "services").Index(j)
			name := ServiceNameFor(application, s.Name)
			if k := slices.IndexFunc(taken[name], func(h holder) bool { return l.together(h.component, c.Name) }); k >= 0 {
				l.wrong(path, "has the name %q, which %s has already: names of Services must differ", s.Name, taken[name][k].path)
				continue
			}
			taken[name] = append(taken[name], holder{path, c.Name})
		}
	}
}

// together says whether two components are the same, or parts of one topology.
func (l *loader) together(a, b string) bool {
	return a == b ||
		slices.ContainsFunc(l.components.Topologies, func(t schema.Topology) bool { return t.Has(a) && t.Has(b) })
}

func (l *loader) checkBindings() {
	l.checkBinding(document.Path{"binding"}, l.components.Binding)
	for i, t := range l.components.Topologies {
		path := document.Path{"topologies"}.Index(i).With("binding")
		l.checkBinding(path, t.Binding)
		if t.Binding != nil && !t.Always(t.Binding.Component) {
			l.wrong(path.With("component"), "names %q, which the topology has not, or not always", t.Binding.Component)
		}
	}
}

func (l *loader) checkBinding(path document.Path, binding *schema.Binding) {
	if binding == nil {
		return
	}
	if binding.Credential != "" {
		l.oneOf(path.With("credential"), binding.Credential, "credential", l.certain(l.credentialNames()))
	}
	all := l.components.Components.Components
	index := slices.IndexFunc(all, func(c schema.Component) bool { return c.Name == binding.Component })
	if index < 0 {
		l.oneOf(path.With("component"), binding.Component, "component",
			names(all, func(c schema.Component) string { return c.Name }))
		return
	}
	if binding.External != nil {
		l.checkExternalBinding(path, binding, &all[index])
		return
	}
	switch speaks := all[index].TLS != nil; {
	case !speaks && binding.URISchemeTLS != "":
		l.wrong(path.With("uriSchemeTLS"), "is for TLS, which component %q does not declare: take it out or give the "+
			"component tls", binding.Component)
	case speaks && binding.URIScheme != "" && binding.URISchemeTLS == "":
		l.wrong(path, "has a uriScheme and no uriSchemeTLS, and component %q can speak TLS: add it", binding.Component)
	}
	if binding.Port == "" {
		l.wrong(path, "has no port: add that of the Service")
		return
	}
	l.checkBoundService(path, "service", &all[index], binding.Service, binding.Port)
	if binding.ReadOnlyService != "" {
		l.checkBoundService(path, "readOnlyService", &all[index], binding.ReadOnlyService, binding.Port)
	}
	l.checkAliases(path.With("aliases"), binding)
	unique(l, path.With("also"), binding.Also, func(s schema.BoundService) string { return s.Prefix })
	for i, also := range binding.Also {
		at := path.With("also").Index(i)
		index := slices.IndexFunc(all, func(c schema.Component) bool { return c.Name == also.Component })
		if index < 0 {
			known := names(all, func(c schema.Component) string { return c.Name })
			l.oneOf(at.With("component"), also.Component, "component", known)
			continue
		}
		l.checkBoundService(at, "service", &all[index], also.Service, also.Port)
	}
}

// checkExternalBinding: all that clients are told is in parameters and credentials of the component.
func (l *loader) checkExternalBinding(path document.Path, binding *schema.Binding, c *schema.Component) {
	if binding.Service != "" || binding.ReadOnlyService != "" || binding.Port != "" || len(binding.Also) > 0 ||
		binding.URIScheme != "" || binding.URISchemeTLS != "" ||
		binding.Database != "" {
		l.wrong(path, "has external, and with that no service, readOnlyService, port, database, also, uriScheme or "+
			"uriSchemeTLS, "+
			"which are of pods: take them out")
	}
	if binding.Credential == "" {
		l.wrong(path, "has external and no credential: add that of the account")
	}
	at := path.With("external")
	if file := l.parameters[c.Parameters]; file != nil {
		l.oneOf(at.With("endpoint"), binding.External.Endpoint, "parameter", l.parameterNames(file))
	}
	l.oneOf(at.With("account"), binding.External.Account, "credential", l.certain(l.credentialNames()))
	if binding.External.CA != "" {
		l.oneOf(at.With("ca"), binding.External.CA, "credential", l.credentialNames())
	}
	l.checkAliases(path.With("aliases"), binding)
}

// checkAliases: each stands for something that is bound, and takes nothing else's place.
func (l *loader) checkAliases(path document.Path, binding *schema.Binding) {
	taken := []string{"type", "provider", "host", "port", "username", "password", "database", "uri", "host-ro", "uri-ro",
		plan.CAFile}
	for _, alias := range slices.Sorted(maps.Keys(binding.Aliases)) {
		of := binding.Aliases[alias]
		switch {
		case slices.Contains(taken, alias):
			l.wrong(path.With(alias), "is a key that every binding can have: take another one")
		case (of == schema.BoundUsername || of == schema.BoundPassword) && binding.Credential == "":
			l.wrong(path.With(alias), "stands for %s, and the binding has no credential: add it, or take the alias out", of)
		case of == schema.BoundEndpoint && binding.URIScheme == "" && binding.External == nil:
			l.wrong(path.With(alias), "stands for %s, and the binding has no uriScheme: add it, or take the alias out", of)
		}
	}
}

// checkBoundService: what clients are told of has to be theirs, on the port that they are told of.
func (l *loader) checkBoundService(path document.Path, field string, c *schema.Component, name, port string) {
	at := slices.IndexFunc(c.Services, func(s schema.Service) bool { return s.Name == name })
	switch {
	case at < 0:
		l.oneOf(path.With(field), name, "Service", names(c.Services, func(s schema.Service) string { return s.Name }))
	case c.Services[at].Exposure == schema.ExposureInternal:
		l.wrong(path.With(field), "names the Service %q, which is not for clients: its exposure must be Client", name)
	default:
		l.oneOf(path.With("port"), port, "port of Service \""+name+"\"", slices.Clone(c.Services[at].Ports))
	}
}

// checkUnused refuses what no component uses: most likely a name is spelled differently.
func (l *loader) checkUnused() {
	templates, sets, credentials := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range l.components.Components.Components {
		templates[c.PodTemplate] = true
		sets[c.Parameters] = true
		for _, name := range c.Credentials {
			credentials[name] = true
		}
	}
	for _, entity := range l.components.Entities {
		sets[entity.Parameters] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.templates)) {
		if !templates[name] {
			l.fail(PartPodTemplates, l.templates[name].key, 1, "no component uses this pod template: take it out")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.parameters)) {
		if !sets[name] {
			l.fail(PartParams, l.parameters[name].file, 1, "no component and no entity uses this parameter set: take it out")
		}
	}
	for i, c := range l.components.Credentials {
		if !credentials[c.Name] {
			l.wrong(document.Path{"credentials"}.Index(i),
				"is used by no component: add %q to the credentials of one, or take it out", c.Name)
		}
	}
}
