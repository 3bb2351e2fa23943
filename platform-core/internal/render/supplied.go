// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// supplied are the credentials that only a user can supply, and did.
func supplied(b *plugin.Bundle, spec *platformv1.ComponentSpec) []string {
	var names []string
	for _, c := range b.Components.Credentials {
		if c.Supplied && hasCredential(spec, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func hasCredential(spec *platformv1.ComponentSpec, name string) bool {
	return slices.ContainsFunc(spec.Credentials, func(c platformv1.ComponentCredential) bool { return c.Name == name })
}

// withGiven is the component without those credentials that only a user can supply, and did not.
func withGiven(declared *schema.Component, b *plugin.Bundle, spec *platformv1.ComponentSpec) *schema.Component {
	absent := func(name string) bool {
		credential, ok := b.Credential(name)
		return ok && credential.Supplied && !hasCredential(spec, name)
	}
	if !slices.ContainsFunc(declared.Credentials, absent) {
		return declared
	}
	without := *declared
	without.Credentials = slices.DeleteFunc(slices.Clone(declared.Credentials), absent)
	return &without
}
