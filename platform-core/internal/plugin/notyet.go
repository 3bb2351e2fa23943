// SPDX-License-Identifier: Apache-2.0

package plugin

import "fmt"

// NotYet lists in sentences what a bundle declares and this engine does not carry out: for its author to know. Nothing of it
// is there for users.
func (b *Bundle) NotYet() []string {
	var list []string
	for i := range b.Components.Components {
		c := &b.Components.Components[i]
		if f := c.Failover; f != nil {
			list = append(list, fmt.Sprintf("component %q declares a failover after %d s (%s, %s, %s), which is checked and not yet carried out",
				c.Name, f.Seconds(), f.Promote, f.Follow, f.RejoinAction()))
		}
	}
	return list
}
