// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// IsShared says whether pods of a topology log in at each other with a credential.
func IsShared(declared *schema.Credential, topology string) bool {
	return slices.Contains(declared.PeerTopologies, topology)
}

// Password says why another password of a credential cannot be taken over by an instance of a topology at once, but
// only beside the one in force, and what to do where that is lost; nil when it can. Components are those that there
// are, by their name in the plugin; wanted is what they are to be.
func Password(declared *schema.Credential, topology string, components map[string]*platformv1.Component,
	wanted []platformv1.ComponentSpec) *render.Refusal {
	if !IsShared(declared, topology) {
		return nil
	}
	for i := range wanted {
		existing := components[wanted[i].Component]
		has := slices.ContainsFunc(wanted[i].Credentials,
			func(c platformv1.ComponentCredential) bool { return c.Name == declared.Name })
		if !has || existing == nil || atRest(existing) || alone(existing, &wanted[i]) {
			continue
		}
		return refuse(platformv1.ReasonPasswordHeld, "the pods of component %q log in at each other with the password of "+
			"credential %q, and the one that they have is in no Secret any more: "+
			"put it back, or set running to false; another password is taken over once the pods are gone; then set running to "+
			"true again", wanted[i].Component, declared.Name)
	}
	return nil
}
