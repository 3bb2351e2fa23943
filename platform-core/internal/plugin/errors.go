// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"fmt"
	"slices"
)

// LoadError is one thing that is wrong with a bundle.
type LoadError struct {
	// File is "<configmap>/<key>", for example redis-components-1.0.0/components.yaml.
	File string
	// Line within the file, from 1; 0 when the error is about the whole file.
	Line int
	// Message is one sentence: what is wrong and what is allowed.
	Message string
	// Missing names the part that is absent, when that is the error.
	Missing Part
}

// Error returns "file:line: message".
func (e LoadError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// sortErrors orders errors by file, line and message and drops those said twice.
func sortErrors(errs []LoadError) []LoadError {
	slices.SortStableFunc(errs, func(a, b LoadError) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(errs)
}
