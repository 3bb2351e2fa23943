// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	_ "embed"
	"fmt"
	"sync"
)

//go:embed schema.cue
var bundleSource string

// Bundle returns the schema of bundles, with the definitions #Components, #ParameterSet and #Operation.
var Bundle = sync.OnceValue(func() *Schema {
	schema, err := Compile(bundleSource, "schema.cue")
	if err != nil {
		// The schema is part of this package.
		panic(fmt.Sprintf("cannot compile the schema of bundles: %v", err))
	}
	return schema
})
