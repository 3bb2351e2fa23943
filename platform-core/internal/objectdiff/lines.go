// SPDX-License-Identifier: Apache-2.0

package objectdiff

import (
	"fmt"
	"slices"
	"strings"
)

// Markers of texts of several lines, and of lists of texts that have such among them.
const (
	// lines has pairs of what a text said and what it says in its place, in the order of the text.
	lines = "$lines"
	old   = "from"
	now   = "to"
	// items has the elements of a list without names that differ, by their number.
	items = "$items"
)

// fewLines is how many lines a text may have that is written as a whole.
const fewLines = 4

// diffText returns the lines that differ, if that is less than the text.
func diffText(from, to string) (Object, bool) {
	if strings.Count(from, "\n") < fewLines || strings.Count(to, "\n") < fewLines {
		return nil, false
	}
	var changes []any
	length := 0
	for _, h := range hunks(strings.Split(from, "\n"), strings.Split(to, "\n")) {
		changes = append(changes, Object{old: strings.Join(h.was, "\n"), now: strings.Join(h.is, "\n")})
		length += len(h.was) + len(h.is)
	}
	patch := Object{lines: changes}
	said, ok := applyText(from, patch)
	return patch, ok && said == to && length < strings.Count(to, "\n")
}

// applyText replaces whole lines, each after the one before.
func applyText(from string, patch Object) (string, bool) {
	changes, ok := patch[lines].([]any)
	rest, said := from+"\n", ""
	for _, c := range changes {
		change, _ := c.(Object)
		before, _ := change[old].(string)
		after, _ := change[now].(string)
		at := strings.Index("\n"+rest, "\n"+before+"\n")
		if at < 0 {
			return "", false
		}
		said += rest[:at]
		rest = rest[at+len(before)+1:]
		if after != "" {
			said += after + "\n"
		}
	}
	return strings.TrimSuffix(said+rest, "\n"), ok
}

// hunk is lines in a row that differ. Where some are only added, the line before them, or behind, is on both sides.
type hunk struct{ was, is []string }

func hunks(from, to []string) []hunk {
	common := longest(from, to)
	var all []hunk
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		if i < len(from) && j < len(to) && from[i] == to[j] {
			i, j = i+1, j+1
			continue
		}
		a, b := i, j
		for (i < len(from) || j < len(to)) && (i == len(from) || j == len(to) || from[i] != to[j]) {
			if j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1] {
				i++
			} else {
				j++
			}
		}
		switch {
		case a < i:
			all = append(all, hunk{from[a:i], to[b:j]})
		case a > 0:
			all = append(all, hunk{from[a-1 : i], to[b-1 : j]})
		default:
			all = append(all, hunk{from[a : i+1], to[b : j+1]})
			i, j = i+1, j+1
		}
	}
	return all
}

// longest has how many lines the rests of two texts have in common.
func longest(from, to []string) [][]int {
	common := make([][]int, len(from)+1)
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}

// diffItems returns the elements that differ of lists of one length, if there is one among them of which only a part
// does.
func diffItems(from, to []any) (Object, bool) {
	if len(from) != len(to) {
		return nil, false
	}
	differ, some := Object{}, false
	for i := range from {
		patch, differs := Diff(from[i], to[i])
		if differs {
			differ[fmt.Sprint(i)] = patch
		}
		_, ofLines := patch.(Object)
		some = some || ofLines
	}
	return Object{items: differ}, some
}

func applyItems(from []any, differ Object) []any {
	to := slices.Clone(from)
	for i := range to {
		if patch, ok := differ[fmt.Sprint(i)]; ok {
			to[i] = Apply(to[i], patch)
		}
	}
	return to
}
