// SPDX-License-Identifier: Apache-2.0

// Package version compares versions of middleware, of which each has its own way to write them.
package version

import (
	"slices"
	"strconv"
	"strings"
)

// Compare is negative where a comes before b, positive where it comes after, and 0 where they are the same. The numbers
// count that a version has between dots, hyphens and plus signs: 0.9 comes before 0.10, 1 is 1.0, and what is no number
// is 0.
func Compare(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

// numbers are those of a version, without zeros at the end.
func numbers(version string) []int {
	var all []int
	for text := range strings.FieldsFuncSeq(version, func(r rune) bool { return r == '.' || r == '-' || r == '+' }) {
		number, err := strconv.Atoi(text)
		if err != nil {
			number = 0
		}
		all = append(all, number)
	}
	for len(all) > 0 && all[len(all)-1] == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// Major is what a version has before its first dot.
func Major(of string) string {
	major, _, _ := strings.Cut(of, ".")
	return major
}
