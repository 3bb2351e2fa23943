// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of transactions by their GTIDs: intervals in order, which neither overlap nor touch, by the UUID of the
// server or group. It is not changed.
type Set map[string][]interval

// interval is of numbers from first to last.
type interval struct{ first, last int64 }

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ParseSet reads a set as MySQL writes it, such as <uuid>:1-5:7,<uuid>:3. Tagged GTIDs, which 8.3 and later can have,
// are refused.
func ParseSet(text string) (Set, error) {
	set := Set{}
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "\n", ""), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		uuid, numbers, _ := strings.Cut(strings.ToLower(part), ":")
		if !uuidForm.MatchString(uuid) {
			return nil, fmt.Errorf("%q is no UUID of a GTID", uuid)
		}
		for text := range strings.SplitSeq(numbers, ":") {
			one, err := parseInterval(text)
			if err != nil {
				return nil, err
			}
			set[uuid] = append(set[uuid], one)
		}
		set[uuid] = merged(set[uuid])
	}
	return set, nil
}

func parseInterval(text string) (interval, error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	if err1 != nil || err2 != nil || from < 1 || to < from {
		return interval{}, fmt.Errorf("%q is no interval of a GTID: tags are not supported", text)
	}
	return interval{from, to}, nil
}

// merged puts intervals in order, and joins those that overlap or touch.
func merged(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return int(min(max(a.first-b.first, -1), 1)) })
	var out []interval
	for _, one := range all {
		if last := len(out) - 1; last >= 0 && one.first <= out[last].last+1 {
			out[last].last = max(out[last].last, one.last)
			continue
		}
		out = append(out, one)
	}
	return out
}

// String is the set as MySQL reads it.
func (s Set) String() string {
	var parts []string
	for _, uuid := range slices.Sorted(maps.Keys(s)) {
		part := uuid
		for _, one := range s[uuid] {
			part += ":" + strconv.FormatInt(one.first, 10)
			if one.last > one.first {
				part += "-" + strconv.FormatInt(one.last, 10)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// Union is what either has.
func (s Set) Union(other Set) Set {
	out := maps.Clone(s)
	if out == nil {
		out = Set{}
	}
	for uuid, intervals := range other {
		out[uuid] = merged(slices.Concat(out[uuid], intervals))
	}
	return out
}

// Minus is what the other has not.
func (s Set) Minus(other Set) Set {
	out := Set{}
	for uuid, intervals := range s {
		left := intervals
		for _, taken := range other[uuid] {
			var next []interval
			for _, one := range left {
				if taken.last < one.first || taken.first > one.last {
					next = append(next, one)
					continue
				}
				if one.first < taken.first {
					next = append(next, interval{one.first, taken.first - 1})
				}
				if one.last > taken.last {
					next = append(next, interval{taken.last + 1, one.last})
				}
			}
			left = next
		}
		if len(left) > 0 {
			out[uuid] = left
		}
	}
	return out
}

// Within says whether the other has all of it.
func (s Set) Within(other Set) bool { return len(s.Minus(other)) == 0 }

// Has says whether a transaction is in it.
func (s Set) Has(uuid string, number int64) bool {
	return slices.ContainsFunc(s[uuid], func(one interval) bool { return one.first <= number && number <= one.last })
}
