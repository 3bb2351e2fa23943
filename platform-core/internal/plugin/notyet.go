// SPDX-License-Identifier: Apache-2.0

package plugin

import "fmt"

// NotYet lists in sentences what a bundle declares and this engine does not carry out: for its author to know. Nothing of it
// is there for users.
func (b *Bundle) NotYet() []string {
	var list []string
	for _, e := range b.Components.Entities {
		list = append(list, fmt.Sprintf("entity %q of component %q is declared, which is checked and not yet kept", e.Type, e.Component))
	}
	return list
}
