// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Password says why another password of a credential cannot be taken over now by an instance of a topology, and what to do; nil when it can. Components
// are those that there are, by their name in the plugin; wanted is what they are to be.
func Password(declared *plugin.Credential, topology string, components map[string]*platformv1.Component, wanted []platformv1.ComponentSpec) *render.Refusal {
	if !slices.Contains(declared.SharedIn, topology) {
		return nil
	}
	for i := range wanted {
		existing := components[wanted[i].Component]
		has := slices.ContainsFunc(wanted[i].Credentials, func(c platformv1.ComponentCredential) bool { return c.Name == declared.Name })
		if !has || existing == nil || atRest(existing) || alone(existing, &wanted[i]) {
			continue
		}
		return refuse(platformv1.ReasonPasswordHeld, "the password of credential %q cannot change while component %q runs, since its pods log in at each other with it, and one with another password would be "+
			"kept out: set running to false; another password is taken over once the pods are gone; then set running to true again", declared.Name, wanted[i].Component)
	}
	return nil
}
