// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Bundle is one loaded version of a plugin. It never changes and is safe for concurrent use.
type Bundle struct {
	// Manifest of the bundle.
	Manifest Manifest
	// Components as written, placeholders included.
	Components schema.Components
	// Operations by name.
	Operations map[string]optemplate.Template
	// Digest over all parts: "sha256:" and 64 hexadecimal digits.
	Digest string
	// Warnings are what is wrong with it and was taken before there was a check for it: no reason to leave instances
	// without their plugin, and one not to make such a plugin any more.
	Warnings []LoadError

	plans      *tree
	templates  map[string]*podTemplate
	parameters map[string]*parameterFile
	// views of it by topology.
	views map[string]*Bundle
}

// Reference returns how an instance pins this bundle.
func (b *Bundle) Reference() platformv1.PluginReference {
	return platformv1.PluginReference{Name: b.Manifest.Name, Version: b.Manifest.Version, Digest: b.Digest}
}

// Component returns the component of this name.
func (b *Bundle) Component(name string) (*schema.Component, bool) {
	for i := range b.Components.Components {
		if b.Components.Components[i].Name == name {
			return &b.Components.Components[i], true
		}
	}
	return nil, false
}

// Topology returns the topology of this name.
func (b *Bundle) Topology(name string) (*schema.Topology, bool) {
	for i := range b.Components.Topologies {
		if b.Components.Topologies[i].Name == name {
			return &b.Components.Topologies[i], true
		}
	}
	return nil, false
}

// Binding returns how clients are told of instances in a topology; nil when they are not.
func (b *Bundle) Binding(topology string) *schema.Binding {
	if t, ok := b.Topology(topology); ok && t.Binding != nil {
		return t.Binding
	}
	return b.Components.Binding
}

// Credential returns the credential of this name.
func (b *Bundle) Credential(name string) (*schema.Credential, bool) {
	for i := range b.Components.Credentials {
		if b.Components.Credentials[i].Name == name {
			return &b.Components.Credentials[i], true
		}
	}
	return nil, false
}

// Operation returns the Operation template of this name.
func (b *Bundle) Operation(name string) (*optemplate.Template, bool) {
	template, ok := b.Operations[name]
	return &template, ok
}

// Parameters returns the compiled parameters of a component; nil when there is nothing to set.
func (b *Bundle) Parameters(component *schema.Component) *Parameters {
	if file, ok := b.parameters[component.Parameters]; ok {
		return file.Parameters
	}
	return nil
}

// HeadlessServiceName returns the name of the headless Service of a component.
func HeadlessServiceName(application, component string) string {
	return application + "-" + component + "-headless"
}

// ServiceNameFor returns the name of a Service that a component declares.
func ServiceNameFor(application, service string) string {
	if service == "" {
		return application
	}
	return application + "-" + service
}
