// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"maps"
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkVerify: a drill makes an instance of the topology with one pod of the component, or of each set that was backed
// up, and runs the template on it as it is.
func (l *loader) checkVerify(path document.Path, c *schema.Component, m *schema.BackupMethod) {
	if m.Restore == nil {
		l.wrong(path, "is of data that was restored, and the method has no restore: add it, or take verify out")
	}
	all := l.components.Topologies
	i := slices.IndexFunc(all, func(t schema.Topology) bool { return t.Name == m.Verify.Topology })
	switch at := path.With("topology"); {
	case i < 0:
		l.oneOf(at, m.Verify.Topology, "topology", names(all, func(t schema.Topology) string { return t.Name }))
	case !all[i].Always(c.Name):
		l.wrong(at, "names %q, which has no component %q, or not always", all[i].Name, c.Name)
	default:
		part := all[i].Components[slices.IndexFunc(all[i].Components,
			func(tc schema.TopologyComponent) bool { return tc.Name == c.Name })]
		// A Backup of an instance with several sets says which: the instance has at least as many as the topology asks for,
		// where all that are backed up are of it.
		elsewhere := slices.ContainsFunc(all, func(t schema.Topology) bool { return t.Name != all[i].Name && t.Has(c.Name) })
		if sets, replicas := c.Limits(part); sets.Min > 1 && elsewhere || replicas.Min > 1 {
			l.wrong(at, "names %q, in which component %q has %d pods at least: a drill makes one", all[i].Name, c.Name,
				max(sets.Min, 1)*replicas.Min)
		}
	}
	if len(m.Verify.Except) > 0 {
		l.checkFileParameters(path, c, schema.FileParameters{Except: m.Verify.Except})
	}
	l.checkNamed(path.With("with"), c, m.Verify.With)
	file, known := l.operations[m.Verify.Operation]
	if !known {
		l.oneOf(path.With("operation"), m.Verify.Operation, "template of this plugin", slices.Sorted(maps.Keys(l.operations)))
		return
	}
	if !file.ActsOn(c.Name) {
		l.wrong(path.With("operation"), "names %q, which cannot act on component %q: name that in its targets",
			m.Verify.Operation, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Parameters)) {
		if file.Parameters[name].Default == nil {
			l.wrong(path.With("operation"), "names %q, whose parameter %q has no default: nobody gives one in a drill",
				m.Verify.Operation, name)
		}
	}
}
