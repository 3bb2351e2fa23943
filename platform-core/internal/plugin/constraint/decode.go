// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"fmt"
	"reflect"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// Decode checks a document against the Go type of target and a definition of the schema of bundles, and fills target.
// It returns the problems of the first of these that finds any; with none, target is filled. leaf may be nil.
func Decode(doc *document.Document, definition string, target any, leaf document.Leaf) []document.Problem {
	if problems := doc.Check(reflect.TypeOf(target).Elem(), leaf); len(problems) > 0 {
		return problems
	}
	var problems []document.Problem
	for _, v := range Bundle().Validate(definition, doc.Value()) {
		path := document.Path(v.Path)
		problems = append(problems,
			document.Problem{Line: doc.Line(path), Message: fmt.Sprintf("%s %s", path, v.Message)})
	}
	if len(problems) > 0 {
		return problems
	}
	if err := doc.Decode(target); err != nil {
		return []document.Problem{{Line: 1, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	return nil
}
