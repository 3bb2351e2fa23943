// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"path"
	"slices"
	"strings"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// MaxMounts is the largest number of mounts of a component.
const MaxMounts = 8

// mountNames are those of some mounts.
func mountNames(mounts []Mount) []string {
	return names(mounts, func(m Mount) string { return m.Name })
}

// sampleMounts are the names of volumes for all mounts, two for each that takes many.
func sampleMounts(mounts []Mount) []string {
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
func singleMounts(mounts []Mount) []string {
	return mountNames(slices.DeleteFunc(slices.Clone(mounts), func(m Mount) bool { return m.Each }))
}

// MountFor returns the mount that a volume of a name is for, with that name and the path where the volume comes, and
// the index of the mount; -1 where there is none.
func (c *Component) MountFor(name string) (Mount, int) {
	if i := slices.IndexFunc(c.Mounts, func(m Mount) bool { return m.Name == name && !m.Each }); i >= 0 {
		return c.Mounts[i], i
	}
	for i, m := range c.Mounts {
		if folder, of := strings.CutPrefix(name, m.Name+"-"); m.Each && of && folder != "" {
			m.Name, m.Path = name, path.Join(m.Path, folder)
			return m, i
		}
	}
	return Mount{}, -1
}

// RequiredMounts are the names of those that there are no pods without.
func (c *Component) RequiredMounts() []string {
	return mountNames(slices.DeleteFunc(slices.Clone(c.Mounts), func(m Mount) bool { return !m.Required }))
}

func (l *loader) checkMounts(at document.Path, c *Component) {
	unique(l, at, c.Mounts, func(m Mount) string { return m.Name })
	for i, m := range c.Mounts {
		first := slices.IndexFunc(c.Mounts, func(other Mount) bool { return other.Path == m.Path })
		if first < i {
			l.wrong(at.Index(i).With("path"), "is %q, where %s is: two cannot be at one place", m.Path,
				at.Index(first))
		}
		if c.Logs != nil && c.Logs.Path == m.Path {
			l.wrong(at.Index(i).With("path"), "is %q, where the access logs are: two cannot be at one place", m.Path)
		}
	}
	verified := slices.ContainsFunc(c.Backups, func(m BackupMethod) bool { return m.Verify != nil })
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
	if len(c.Mounts) > MaxMounts {
		l.wrong(at, "has %d mounts: a component has at most %d", len(c.Mounts), MaxMounts)
	}
}
