// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Nearest returns the name that a wrong one was most likely meant to be, or ""
// when none is close: few letters differ, or the wrong one is the beginning of that name alone. Among equals the first
// in order wins.
func Nearest(wrong string, names []string) string {
	best, bestDistance := "", max(1, len(wrong)/3)
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(wrong, name); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = name, d
		}
	}
	if best != "" || wrong == "" {
		return best
	}
	longer := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, wrong) })
	if len(longer) == 1 {
		return longer[0]
	}
	return ""
}

// maxListed is the most fields that a message lists: nobody reads more.
const maxListed = 24

// suggestion is the field that was most likely meant, or those that there are where they are few.
func suggestion(wrong string, fields map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(fields))
	if name := Nearest(wrong, names); name != "" {
		return fmt.Sprintf(": did you mean %q?", name)
	}
	if len(names) > maxListed {
		return ""
	}
	return ": there is " + strings.Join(names, ", ")
}

// distance counts the letters to insert, delete, replace or swap with their neighbour.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
