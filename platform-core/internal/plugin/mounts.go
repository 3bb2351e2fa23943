// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// mountNames are those of some mounts.
func mountNames(mounts []schema.Mount) []string {
	return names(mounts, func(m schema.Mount) string { return m.Name })
}

func (l *loader) checkMounts(path document.Path, c *schema.Component) {
	unique(l, path, c.Mounts, func(m schema.Mount) string { return m.Name })
	for i, m := range c.Mounts {
		first := slices.IndexFunc(c.Mounts, func(other schema.Mount) bool { return other.Path == m.Path })
		if first < i {
			l.wrong(path.Index(i).With("path"), "is %q, where %s is: two cannot be at one place", m.Path,
				path.Index(first))
		}
		if c.Logs != nil && c.Logs.Path == m.Path {
			l.wrong(path.Index(i).With("path"), "is %q, where the access logs are: two cannot be at one place", m.Path)
		}
	}
	verified := slices.ContainsFunc(c.Backups, func(m schema.BackupMethod) bool { return m.Verify != nil })
	for i, m := range c.Mounts {
		if m.Required && verified {
			l.wrong(path.Index(i).With("required"),
				"is true, and an instance that verifies a backup has no mounts: have pods without it, or no verify")
		}
	}
	if len(c.Mounts) > schema.MaxMounts {
		l.wrong(path, "has %d mounts: a component has at most %d", len(c.Mounts), schema.MaxMounts)
	}
}
