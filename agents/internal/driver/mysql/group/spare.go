// SPDX-License-Identifier: Apache-2.0

package group

import "fmt"

// spare is an error where the others cannot do without a member: none of them is the primary of a group that takes
// writes, so that it may have what nobody else has.
func (f found) spare(members []string, pod string) error {
	knowing := f.knowing(members)
	switch {
	case len(knowing) == 0:
		return fmt.Errorf("no member is in a group that takes writes, so %s may have what the others have not, and nothing "+
			"of it is deleted: the group goes on when its members are back; where some are gone for good, run ForceQuorum",
			pod)
	case !f.oneGroup(knowing):
		return fmt.Errorf("members are in two groups, and %s may have what the others have not: nothing of it is deleted",
			pod)
	}
	switch primary := f.primary(f.latest(knowing)); primary {
	case "":
		return fmt.Errorf("the members elect a primary, or it does not answer: nothing of %s is deleted", pod)
	case pod:
		return fmt.Errorf("%s is the primary, whose data the others copy: have another one take over first, with a "+
			"Switchover", pod)
	}
	return nil
}
