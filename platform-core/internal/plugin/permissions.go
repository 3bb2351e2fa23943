// SPDX-License-Identifier: Apache-2.0

package plugin

// GrantableResources are those that a plugin can let its pods read: an operator can grant no more than it has itself,
// and what holds secrets, or changes anything, it grants to nobody. The schema has the same list.
var GrantableResources = []string{"configmaps", "persistentvolumeclaims", "pods", "services"}

// GrantableVerbs are what a plugin can let its pods do with them.
var GrantableVerbs = []string{"get", "list", "watch"}
