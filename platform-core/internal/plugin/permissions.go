// SPDX-License-Identifier: Apache-2.0

package plugin

// Permission is what the process of a component may read of the namespace that it is in.
type Permission struct {
	// Resources of the core API group, such as pods.
	Resources []string `json:"resources"`
	// Verbs: get, list, watch.
	Verbs []string `json:"verbs"`
}

// GrantableResources are those that a plugin can let its pods read: an operator can grant no more than it has itself,
// and what holds secrets, or changes anything, it grants to nobody. The schema has the same list.
var GrantableResources = []string{"configmaps", "persistentvolumeclaims", "pods", "services"}

// GrantableVerbs are what a plugin can let its pods do with them.
var GrantableVerbs = []string{"get", "list", "watch"}
