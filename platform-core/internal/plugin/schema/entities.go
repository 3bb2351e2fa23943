// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
)

// Driver has the ops agent speak the middleware's own protocol.
type Driver struct {
	// Protocol is one of those that package plan names.
	Protocol string `json:"protocol"`
	// Address of the process within its pod: host and port. Empty for a protocol of what is elsewhere, which has Settings.
	Address string `json:"address,omitempty"`
	// Settings are the parameters of the component that say where it is: those of plan.DriverProtocol.
	Settings []string `json:"settings,omitempty"`
	// Account is the credential whose password is the name that the driver logs in as, for a protocol with Settings.
	Account string `json:"account,omitempty"`
	// CA is the credential whose password is the authority, as PEM, of the certificate of what is elsewhere: for a
	// protocol with Settings, and for plan.ProtocolMinIO, whose servers go to others and know it beside their own. Where
	// only a user can supply it, and did not, those of the image count.
	CA string `json:"ca,omitempty"`
	// TLS says that the process speaks TLS there, where the instance does.
	TLS bool `json:"tls,omitempty"`
	// Credential that the driver logs in with; it must be one of the component's. None when empty.
	Credential string `json:"credential,omitempty"`
	// EntitiesFile is where the driver keeps the entities that it made, for a process that forgets them when it is
	// restarted.
	EntitiesFile string `json:"entitiesFile,omitempty"`
}

// Entity is a type of objects that live inside the middleware, such as topics or users. Either the driver of the
// component keeps them, or actions do.
type Entity struct {
	// Type is its name, for example topic.
	Type string `json:"type"`
	// Component in whose pods it is kept.
	Component string `json:"component"`
	// Role of the pod that is asked. Default: the one that takes writes; any pod where the component has no roles.
	Role string `json:"role,omitempty"`
	// Pods that have such an object: one of them has it for all by default.
	Pods EntityPods `json:"pods,omitempty"`
	// Names is a CUE constraint of the names that such an object can have.
	Names string `json:"names"`
	// Driver is what the component's driver calls it.
	Driver string `json:"driver,omitempty"`
	// Actions of the component by what they do.
	Actions *plan.EntityActions `json:"actions,omitempty"`
	// Parameters is the key of the parameter set that says what can be said of such an object.
	Parameters string `json:"parameters,omitempty"`
	// Password: Required, Optional, or empty for objects that have none.
	Password EntityPassword `json:"password,omitempty"`
}

// EntityPods says which pods have an object.
type EntityPods string

// EntityEach: every pod of the component has it for itself, also one that comes later.
const EntityEach EntityPods = "Each"

// EntityPassword says whether an object has a password.
type EntityPassword string

// Values of EntityPassword.
const (
	PasswordRequired EntityPassword = "Required"
	PasswordOptional EntityPassword = "Optional"
)

// CheckEntityName says whether an object of the type can have the name; the error ends a sentence.
func (e *Entity) CheckEntityName(name string) error { return constraint.CheckText(e.Names, name) }
