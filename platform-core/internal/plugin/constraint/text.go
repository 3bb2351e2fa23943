// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

// CheckText says whether a text meets a CUE constraint, for example `=~"^[a-z]+$"`; the error ends a sentence that
// begins with what the text is. Constraint and value are compiled at each call: it is for what happens seldom.
func CheckText(source, value string) error {
	constraint, err := textConstraint(source)
	if err != nil {
		return err
	}
	if err := constraint.Unify(cuecontext.New().Encode(value)).Validate(cue.Concrete(true)); err != nil {
		return fmt.Errorf("is %q: it must be %s", value, Describe(constraint))
	}
	return nil
}

// CheckTextConstraint says whether a constraint is one that a text can meet.
func CheckTextConstraint(source string) error {
	_, err := textConstraint(source)
	return err
}

func textConstraint(source string) (cue.Value, error) {
	// As a field, it can have the attribute that says it in words.
	root := cuecontext.New().CompileString("value: "+source, cue.Filename("constraint"))
	constraint := root.LookupPath(cue.ParsePath("value"))
	if err := root.Err(); err != nil {
		return cue.Value{}, fmt.Errorf("is no CUE constraint: %w", err)
	}
	if constraint.IncompleteKind()&cue.StringKind == 0 {
		return cue.Value{}, fmt.Errorf("takes %s: a parameter is text", constraint.IncompleteKind())
	}
	return constraint, nil
}
