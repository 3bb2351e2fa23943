// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/constraint"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func (l *loader) checkTarget(path document.Path, m *schema.TargetMethod) {
	if m == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		if err := constraint.CheckTextConstraint(m.Parameters[name].Schema); err != nil {
			l.wrong(path.With("parameters").With(name).With("schema"), "%v", err)
		}
	}
	unique(l, path.With("credentials"), m.Credentials, func(c schema.TargetCredential) string { return c.Name })
}
