// SPDX-License-Identifier: Apache-2.0

package apt

import (
	"path"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/images/internal/deb822"
)

// relation parses a field such as Depends into clauses of alternative package
// names; versions and architecture qualifiers are dropped, as apt has already
// chosen versions that fit.
func relation(field string) [][]string {
	var clauses [][]string
	for clause := range strings.SplitSeq(field, ",") {
		var names []string
		for alternative := range strings.SplitSeq(clause, "|") {
			words := strings.FieldsFunc(alternative, func(c rune) bool { return strings.ContainsRune(" \t\n(:[", c) })
			if len(words) > 0 {
				names = append(names, words[0])
			}
		}
		if len(names) > 0 {
			clauses = append(clauses, names)
		}
	}
	return clauses
}

// reachable walks the dependencies of the wanted packages inside apt's solution and
// returns the packages that are met when excluded ones, and so whatever only
// they need, are left out. A wanted package is never excluded.
func reachable(solution map[string]deb822.Stanza, wanted, exclude []string) []string {
	providers := map[string][]string{}
	for name, stanza := range solution {
		for _, clause := range relation(stanza.Get("Provides")) {
			providers[clause[0]] = append(providers[clause[0]], name)
		}
	}
	satisfiers := func(name string) []string {
		if _, real := solution[name]; real {
			return []string{name}
		}
		return providers[name]
	}
	seen := map[string]bool{}
	var queue []string
	for _, name := range wanted {
		queue = append(queue, satisfiers(name)...)
	}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		stanza := solution[name]
		for _, clause := range append(relation(stanza.Get("Pre-Depends")), relation(stanza.Get("Depends"))...) {
			for _, alternative := range clause {
				found := satisfiers(alternative)
				if len(found) == 0 {
					continue
				}
				queue = append(queue, slices.DeleteFunc(slices.Clone(found), func(n string) bool {
					return !slices.Contains(wanted, n) && excluded(n, exclude)
				})...)
				break
			}
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// excluded tells whether a package's name matches one of the shell patterns.
func excluded(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		match, err := path.Match(p, name)
		return err == nil && match
	})
}
