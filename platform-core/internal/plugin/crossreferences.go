// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// checkServiceNames: the Services of all components share the names of the Application.
func (l *loader) checkServiceNames() {
	const application = "x"
	taken := map[string]document.Path{}
	for i, c := range l.components.Components.Components {
		taken[HeadlessServiceName(application, c.Name)] = componentPath(i)
	}
	for i, c := range l.components.Components.Components {
		for j, s := range c.Services {
			path := componentPath(i, "services").Index(j)
			name := ServiceNameFor(application, s.Name)
			if first, ok := taken[name]; ok {
				l.wrong(path, "has the name %q, which %s has already: names of Services must differ", s.Name, first)
				continue
			}
			taken[name] = path
		}
	}
}

func (l *loader) checkBinding() {
	binding := l.components.Binding
	if binding == nil {
		return
	}
	path := document.Path{"binding"}
	if binding.Credential != "" {
		l.oneOf(path.With("credential"), binding.Credential, "credential", l.credentialNames())
	}
	all := l.components.Components.Components
	index := slices.IndexFunc(all, func(c Component) bool { return c.Name == binding.Component })
	if index < 0 {
		l.oneOf(path.With("component"), binding.Component, "component", names(all, func(c Component) string { return c.Name }))
		return
	}
	switch speaks := all[index].TLS != nil; {
	case !speaks && binding.URISchemeTLS != "":
		l.wrong(path.With("uriSchemeTLS"), "is for TLS, which component %q does not declare: take it out or give the component tls", binding.Component)
	case speaks && binding.URIScheme != "" && binding.URISchemeTLS == "":
		l.wrong(path, "has a uriScheme and no uriSchemeTLS, and component %q can speak TLS: add it", binding.Component)
	}
	l.checkBoundService(path.With("service"), all[index].Services, binding.Service, binding.Port)
	if binding.ReadOnlyService != "" {
		l.checkBoundService(path.With("readOnlyService"), all[index].Services, binding.ReadOnlyService, binding.Port)
	}
	unique(l, path.With("also"), binding.Also, func(s BoundService) string { return s.Prefix })
	for i, also := range binding.Also {
		at := path.With("also").Index(i)
		index := slices.IndexFunc(all, func(c Component) bool { return c.Name == also.Component })
		if index < 0 {
			l.oneOf(at.With("component"), also.Component, "component", names(all, func(c Component) string { return c.Name }))
			continue
		}
		l.checkBoundService(at.With("service"), all[index].Services, also.Service, also.Port)
	}
}

// checkBoundService: what clients are told of has to be theirs, on the port that they are told of.
func (l *loader) checkBoundService(path document.Path, services []Service, name, port string) {
	at := slices.IndexFunc(services, func(s Service) bool { return s.Name == name })
	switch {
	case at < 0:
		l.oneOf(path, name, "Service", names(services, func(s Service) string { return s.Name }))
	case services[at].Exposure == ExposureInternal:
		l.wrong(path, "names the Service %q, which is not for clients: its exposure must be Client", name)
	default:
		l.oneOf(append(path[:len(path)-1:len(path)-1], "port"), port, "port of Service \""+name+"\"", slices.Clone(services[at].Ports))
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
			l.wrong(document.Path{"credentials"}.Index(i), "is used by no component: add %q to the credentials of one, or take it out", c.Name)
		}
	}
}
