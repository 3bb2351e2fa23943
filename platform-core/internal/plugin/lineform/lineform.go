// SPDX-License-Identifier: Apache-2.0

// Package lineform makes lines of files of format text out of what users write: each is read by the form's own grammar
// and written anew, so that whatever they write it becomes one line of that form or is refused.
package lineform

import "fmt"

// Form is the grammar of a line.
type Form string

// PGHBA is a rule of pg_hba.conf: its type, databases, roles, address and method.
const PGHBA Form = "pg_hba"

var writers = map[Form]func(text string) (string, error){PGHBA: pgHBA}

// Line is what a text becomes in the file, without a line break. The error ends a sentence that begins with what the
// text is, and says what is allowed.
func (f Form) Line(text string) (string, error) {
	write, known := writers[f]
	if !known {
		return "", fmt.Errorf("is a line of the form %q, which is not known", string(f))
	}
	return write(text)
}
