// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"archive/tar"
	"path"
	"slices"
	"strings"
)

// protected are never taken out: licences must travel with what they cover, and
// scanners learn from status.d which packages are inside.
var protected = []string{"/usr/share/doc/*/copyright", statusDir + "/*"}

// Prune removes what matches one of the shell patterns, with all below it, and the
// folders that this leaves empty. Licence texts and the list of packages stay.
func (t *Tree) Prune(patterns []string) {
	t.remove(func(e *Entry) bool { return matches(e.Path, patterns) })
}

// Keep removes everything but what matches one of the shell patterns, with all
// below it, and the folders that lead there. Licence texts and the list of packages stay.
func (t *Tree) Keep(patterns []string) {
	t.remove(func(e *Entry) bool { return !matches(e.Path, patterns) })
}

func (t *Tree) remove(unwanted func(*Entry) bool) {
	names := t.Paths()
	slices.Reverse(names) // what is inside a folder comes before the folder
	occupied, emptied := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		e := t.entries[name]
		drop := unwanted(e) && !t.isProtected(e)
		if e.Type == tar.TypeDir && occupied[name] {
			drop = false
		} else if e.Type == tar.TypeDir && emptied[name] {
			drop = true
		}
		if drop {
			delete(t.entries, name)
			emptied[path.Dir(name)] = true
		} else {
			occupied[path.Dir(name)] = true
		}
	}
}

// isProtected also spares the links by which packages share one folder of licence texts.
func (t *Tree) isProtected(e *Entry) bool {
	if e.Type == tar.TypeDir {
		return false
	}
	sharedDoc := e.Type == tar.TypeSymlink && path.Dir(e.Path) == "usr/share/doc"
	return sharedDoc || matches(e.Path, protected)
}

// matches tells whether a path, or a folder that it is in, matches one of the patterns.
func matches(name string, patterns []string) bool {
	for name = "/" + name; name != "/"; name = path.Dir(name) {
		for _, p := range patterns {
			if ok, err := path.Match(strings.TrimSuffix(p, "/"), name); err == nil && ok {
				return true
			}
		}
	}
	return false
}
