// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// CheckArchive checks what leads to a place as CheckParameters does what a user set. It returns every error, in order
// of name.
func (b *Bundle) CheckArchive(component *schema.Component, version string,
	place *platformv1.ComponentArchive) []ParameterError {
	return b.checked(component, version, component.Archive.ParametersFor(place))
}

// checkArchive: what the engine says has to be there to be said, and goes with what the rest of the plugin says.
func (l *loader) checkArchive(path document.Path, c *schema.Component) {
	a := c.Archive
	if a == nil {
		return
	}
	p := a.Parameters
	if p.Volume == "" && p.Bucket == "" {
		l.wrong(path.With("parameters"), "has neither volume nor bucket: one of them has to be there")
	}
	if p.Bucket == "" && (p.Endpoint != "" || p.Region != "" || p.Addressing != "" || len(a.CredentialNames()) > 0) {
		l.wrong(path.With("parameters"), "has no bucket, and something else that is for one: add it, or take that out")
	}
	if p.Bucket != "" && (p.Endpoint == "" || a.Credentials.AccessKey == "" || a.Credentials.SecretKey == "") {
		l.wrong(path.With("parameters"), "has a bucket: parameters.endpoint, credentials.accessKey and "+
			"credentials.secretKey have to be there as well")
	}
	unique(l, path.With("parameters"), a.ParameterNames(), func(name string) string { return name })
	unique(l, path.With("credentials"), a.CredentialNames(), func(name string) string { return name })
	if file := l.parameters[c.Parameters]; file != nil {
		for _, name := range a.ParameterNames() {
			l.oneOf(path.With("parameters"), name, "parameter", l.parameterNames(file))
		}
	}
	for _, name := range a.CredentialNames() {
		i := slices.IndexFunc(l.components.Credentials, func(known schema.Credential) bool { return known.Name == name })
		switch {
		case !slices.Contains(c.Credentials, name):
			l.oneOf(path.With("credentials"), name, "credential of this component", slices.Clone(c.Credentials))
		case i >= 0 && !l.components.Credentials[i].Supplied:
			l.wrong(path.With("credentials"), "names %q, which the engine makes where nobody supplies it: it must be supplied",
				name)
		}
	}
}
