// SPDX-License-Identifier: Apache-2.0

package schema

// VerifyMethod says how data is judged that was restored.
type VerifyMethod struct {
	// Topology that the instance of a drill has: one in which a single pod of the component is enough, or of each of its
	// sets.
	Topology string `json:"topology"`
	// Operation is the template of the plugin that reads all of the data and fails when something is wrong with it. Each
	// of its parameters has a default.
	Operation string `json:"operation"`
	// Except are the parameters, or beginnings and *, that the instance of a drill does not have from the source: those
	// for replicas, for example.
	Except []string `json:"except,omitempty"`
	// With are parameters that it has whatever the source's are: what keeps it from doing anything to others.
	With map[string]string `json:"with,omitempty"`
}

// Takes says whether the instance of a drill has a parameter of the source.
func (m *VerifyMethod) Takes(parameter string) bool { return !MatchesAny(m.Except, parameter) }
