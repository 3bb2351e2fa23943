// SPDX-License-Identifier: Apache-2.0

package schema

// Membership brings pods to be what they are to each other: members of one cluster, each with its part of it. Both
// actions have the outputs phase (one of the MembershipPhases) and reason, and are run in one pod at a time.
type Membership struct {
	// Check is the action that says how far the members are, and changes nothing.
	Check string `json:"check"`
	// Action takes steps, for as long as its time allows.
	Action string `json:"action"`
	// Parameters of both by name. Placeholders see app, component, members, leaving, moves and formed.
	Parameters map[string]string `json:"parameters,omitempty"`
}
