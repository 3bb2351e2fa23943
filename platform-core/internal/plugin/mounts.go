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

// sampleMounts are the names of volumes for all mounts, two for each that takes many.
func sampleMounts(mounts []schema.Mount) []string {
	var all []string
	for _, m := range mounts {
		if m.Each {
			all = append(all, m.Name+"-a", m.Name+"-b")
			continue
		}
		all = append(all, m.Name)
	}
	return all
}

// singleMounts are the names of those that take one volume.
func singleMounts(mounts []schema.Mount) []string {
	return mountNames(slices.DeleteFunc(slices.Clone(mounts), func(m schema.Mount) bool { return m.Each }))
}

func (l *loader) checkMounts(at document.Path, c *schema.Component) {
	unique(l, at, c.Mounts, func(m schema.Mount) string { return m.Name })
	for i, m := range c.Mounts {
		first := slices.IndexFunc(c.Mounts, func(other schema.Mount) bool { return other.Path == m.Path })
		if first < i {
			l.wrong(at.Index(i).With("path"), "is %q, where %s is: two cannot be at one place", m.Path,
				at.Index(first))
		}
		if c.Logs != nil && c.Logs.Path == m.Path {
			l.wrong(at.Index(i).With("path"), "is %q, where the access logs are: two cannot be at one place", m.Path)
		}
	}
	verified := slices.ContainsFunc(c.Backups, func(m schema.BackupMethod) bool { return m.Verify != nil })
	for i, m := range c.Mounts {
		if m.Required && m.Each {
			l.wrong(at.Index(i).With("required"), "is true, and each volume of the mount has a name of its own: take "+
				"required or each out")
		}
		if m.Required && verified {
			l.wrong(at.Index(i).With("required"),
				"is true, and an instance that verifies a backup has no mounts: have pods without it, or no verify")
		}
	}
	if len(c.Mounts) > schema.MaxMounts {
		l.wrong(at, "has %d mounts: a component has at most %d", len(c.Mounts), schema.MaxMounts)
	}
}
