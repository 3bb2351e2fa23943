// SPDX-License-Identifier: Apache-2.0

// Package law checks who imports whom.
package law

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

// Check returns the imports that break the law. Tests are free to import what they
// test with, but for kinds, controllers and operators other than their own.
func Check(t *tree.Tree) []tree.Violation {
	var violations []tree.Violation
	for _, file := range t.Files {
		violations = append(violations, checkFile(t, file)...)
	}
	return violations
}

func checkFile(t *tree.Tree, file *tree.File) []tree.Violation {
	path, ours := strings.CutPrefix(file.Package, suite)
	if !ours {
		return []tree.Violation{{Path: file.Path,
			Message: fmt.Sprintf("package %q is not in a module of %s", file.Package, suite)}}
	}
	r, names, found := ruleOf(path)
	if !found {
		return []tree.Violation{{Path: file.Path,
			Message: "no rule of the import law covers this package: add one to hack/checks/internal/law/table.go"}}
	}
	var violations []tree.Violation
	for _, spec := range file.Syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || r.allows(path, imported, names, file.IsTest()) {
			continue
		}
		violations = append(violations, tree.Violation{
			Path: file.Path, Line: t.Line(spec.Pos()),
			Message: fmt.Sprintf("%s may not import %s", path, strings.TrimPrefix(imported, suite)),
		})
	}
	return violations
}

func ruleOf(path string) (rule, map[string]string, bool) {
	for _, r := range table {
		names := map[string]string{}
		if match(r.of, path, names) {
			return r, names, true
		}
	}
	return rule{}, nil, false
}

// allows tells whether a package may import another.
func (r rule) allows(path, imported string, names map[string]string, test bool) bool {
	inner, ours := strings.CutPrefix(imported, suite)
	switch {
	case !ours && isStandard(imported), ours && below(inner, path):
		return true
	case r.own(inner, names):
		return true
	case matchesAny(r.never, inner, names) && (!test || ours):
		return false
	case test && (!ours || moduleOf(inner) == moduleOf(path) || moduleOf(inner) == "platform-core"):
		return true
	}
	return matchesAny(r.may, inner, names) || !ours && slices.Contains(r.may, "any")
}

// own tells whether a package is in the same sibling as the importer: the part of a
// rule that its name picks out.
func (r rule) own(imported string, names map[string]string) bool {
	return strings.Contains(r.of, "{x}") && match(r.of, imported, maps.Clone(names))
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

var module = regexp.MustCompile(`^(hack/)?[^/]+`)

// moduleOf returns the folder of the module that a package of the suite is in.
func moduleOf(path string) string { return module.FindString(path) }

func below(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

func matchesAny(patterns []string, path string, names map[string]string) bool {
	for _, pattern := range patterns {
		if match(pattern, path, maps.Clone(names)) {
			return true
		}
	}
	return false
}

var placeholder = regexp.MustCompile(`\\\{(\w+)\\\}`)

// match matches a path against a pattern. A {name} that is known must be the same; one
// that is not becomes known.
func match(pattern, path string, names map[string]string) bool {
	expression := regexp.QuoteMeta(pattern)
	if base, found := strings.CutSuffix(expression, `/\.\.\.`); found {
		expression = base + `(?:/.*)?`
	}
	expression = placeholder.ReplaceAllStringFunc(expression, func(token string) string {
		name := placeholder.FindStringSubmatch(token)[1]
		if value, known := names[name]; known {
			return regexp.QuoteMeta(value)
		}
		return `(?P<` + name + `>[^/]+?)`
	})
	compiled := regexp.MustCompile(`^` + expression + `$`)
	found := compiled.FindStringSubmatch(path)
	if found == nil {
		return false
	}
	for i, name := range compiled.SubexpNames() {
		if name != "" {
			names[name] = found[i]
		}
	}
	return true
}
