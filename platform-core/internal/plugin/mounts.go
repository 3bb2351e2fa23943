// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// MaxMounts is the largest number of mounts of a component.
const MaxMounts = 8

// mountNames are those of some mounts.
func mountNames(mounts []Mount) []string {
	return names(mounts, func(m Mount) string { return m.Name })
}

// RequiredMounts are the names of those that there are no pods without.
func (c *Component) RequiredMounts() []string {
	return mountNames(slices.DeleteFunc(slices.Clone(c.Mounts), func(m Mount) bool { return !m.Required }))
}

func (l *loader) checkMounts(path document.Path, c *Component) {
	unique(l, path, c.Mounts, func(m Mount) string { return m.Name })
	for i, m := range c.Mounts {
		first := slices.IndexFunc(c.Mounts, func(other Mount) bool { return other.Path == m.Path })
		if first < i {
			l.wrong(path.Index(i).With("path"), "is %q, where %s is: two cannot be at one place", m.Path,
				path.Index(first))
		}
		if c.Logs != nil && c.Logs.Path == m.Path {
			l.wrong(path.Index(i).With("path"), "is %q, where the access logs are: two cannot be at one place", m.Path)
		}
	}
	verified := slices.ContainsFunc(c.Backups, func(m BackupMethod) bool { return m.Verify != nil })
	for i, m := range c.Mounts {
		if m.Required && verified {
			l.wrong(path.Index(i).With("required"),
				"is true, and an instance that verifies a backup has no mounts: have pods without it, or no verify")
		}
	}
	if len(c.Mounts) > MaxMounts {
		l.wrong(path, "has %d mounts: a component has at most %d", len(c.Mounts), MaxMounts)
	}
}
