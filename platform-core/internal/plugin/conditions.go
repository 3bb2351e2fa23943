// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"regexp"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func (l *loader) checkConditions(path document.Path, c *schema.Component) {
	unique(l, path, c.Conditions, func(p schema.PodCondition) string { return p.Type })
	attributes, roles := slices.Collect(maps.Keys(c.Probe.Attributes)),
		names(c.Roles, func(r schema.Role) string { return r.Name })
	for i, condition := range c.Conditions {
		at := path.Index(i)
		for j, role := range condition.Roles {
			l.oneOf(at.With("roles").Index(j), role, "role", slices.Clone(roles))
		}
		for key, source := range map[string]string{"status": condition.Status, "reason": condition.Reason,
			"message": condition.Message} {
			l.checkFormula(at.With(key), source, cel.StringType, "text", attributes)
		}
	}
}

var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// IsReason says whether a text can be the reason of a condition.
func IsReason(text string) bool { return len(text) <= 1024 && reasonForm.MatchString(text) }
