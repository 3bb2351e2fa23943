// SPDX-License-Identifier: Apache-2.0

// Package words checks that names of Go identifiers and files use standard terms. It refuses the words of the left
// column of the glossary that have no ordinary meaning in this code.
package words

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/zeroinfra/hack/checks/internal/tree"
)

// terms has the standard term for each refused word. A word of several parts is written in camel case.
var terms = map[string]string{
	"accuse": "suspect", "accused": "suspected", "accuses": "suspects",
	"acquaintance": "membership state",
	"ailment":      "unhealthyReason", "trouble": "failureReason", "troubles": "failures", "worry": "warning",
	"astray":     "invalidGeneration",
	"bereft":     "noCandidateReason",
	"dispossess": "revoke", "dispossessed": "revoked", "undisputed": "single",
	"farewell": "release timeout",
	"foresee":  "forecast", "foresees": "forecasts", "foreseen": "forecast", "foresight": "forecast",
	"giveBack": "release",
	"madefrom": "pluginindex", "memo": "cache", "podchange": "inplaceupdate", "sure": "live",
	"heir": "candidate", "heirs": "candidates", "heirless": "noCandidate",
	"lesson": "acknowledged record", "lessons": "acknowledged records", "taught": "acknowledged",
	"newcomer": "new object", "newcomers": "new objects",
	"obey": "execute", "obeys": "executes", "obeyed": "executed",
	"prospect": "forecast or dry run", "prospects": "forecasts or dry runs",
	"reign": "term or reconcilePrimary", "reigns": "terms",
	"saysMore": "reportChanged", "wentOn": "statusProgressed",
	"speaker": "reporter", "speakers": "reporters",
	"tend": "reconcile", "tends": "reconciles",
	"unheard": "unreachable or unacknowledged",
}

// local has more refused words for the packages in some folders, where they have one meaning. Elsewhere a writer is an
// io.Writer.
var local = []struct {
	folders []string
	terms   map[string]string
}{{
	folders: []string{"platform-core/internal/failover/", "platform-core/internal/rollout/",
		"platform-core/internal/disruption/", "platform-core/internal/controller/workloadset/",
		"platform-core/internal/opsflow/", "platform-core/agentproto/permission/",
		"agents/internal/driver/postgres/replication/", "agents/internal/supervisor/"},
	terms: map[string]string{
		"writer": "primary", "writers": "primaries",
		"yield": "acquire the disruption lock", "yields": "waits",
		"turn": "reconcile, round or disruption lock", "turns": "reconciles, rounds or disruption locks",
	},
}}

// part matches one word of a name in camel case.
var part = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// Check returns the identifiers and files whose names have a refused word: each name once per file.
func Check(t *tree.Tree) []tree.Violation {
	var violations []tree.Violation
	for _, file := range t.Files {
		if file.IsGenerated() {
			continue
		}
		known := termsOf(file.Path)
		name, _, _ := strings.Cut(strings.TrimSuffix(path.Base(file.Path), ".go"), "_")
		if word := refused(name, known); word != "" {
			violations = append(violations,
				tree.Violation{Path: file.Path, Message: message("file name", name, word, known)})
		}
		reported := map[string]bool{}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				// The selected name is reported where it is declared, or belongs to another project.
				ast.Inspect(selector.X, func(inner ast.Node) bool {
					violations = append(violations, identifier(t, file, inner, known, reported)...)
					return true
				})
				return false
			}
			violations = append(violations, identifier(t, file, node, known, reported)...)
			return true
		})
	}
	return violations
}

// termsOf returns the refused words of a file with their terms.
func termsOf(file string) map[string]string {
	known := maps.Clone(terms)
	for _, more := range local {
		if slices.ContainsFunc(more.folders, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
			maps.Copy(known, more.terms)
		}
	}
	return known
}

func identifier(t *tree.Tree, file *tree.File, node ast.Node, known map[string]string,
	reported map[string]bool) []tree.Violation {
	id, ok := node.(*ast.Ident)
	if !ok || reported[id.Name] {
		return nil
	}
	word := refused(id.Name, known)
	if word == "" {
		return nil
	}
	reported[id.Name] = true
	return []tree.Violation{{Path: file.Path, Line: t.Line(id.Pos()), Message: message("name", id.Name, word, known)}}
}

func message(kind, name, word string, known map[string]string) string {
	return fmt.Sprintf("%s %s has the word %q, which is no term: use %q, or another term of the glossary", kind, name,
		word, known[word])
}

// refused returns the first refused word of a name; empty for none.
func refused(name string, known map[string]string) string {
	previous := ""
	for _, word := range part.FindAllString(name, -1) {
		lower := strings.ToLower(word)
		if known[lower] != "" {
			return lower
		}
		if pair := previous + strings.ToUpper(lower[:1]) + lower[1:]; previous != "" && known[pair] != "" {
			return pair
		}
		previous = lower
	}
	return ""
}
