// SPDX-License-Identifier: Apache-2.0

package schema

// Permission is what the process of a component may read of the namespace that it is in.
type Permission struct {
	// Resources of the core API group, such as pods.
	Resources []string `json:"resources"`
	// Verbs: get, list, watch.
	Verbs []string `json:"verbs"`
}
