// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// patternsOf are the patterns that a file names, and the field that holds them.
func patternsOf(f schema.FileParameters) (field string, list []string) {
	if len(f.Except) > 0 {
		return "except", f.Except
	}
	return "match", f.Match
}
