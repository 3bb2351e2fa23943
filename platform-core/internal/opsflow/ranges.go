// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ranges is a set of numbers from 1, in order: each range ends before the next one begins, with a gap between them.
type ranges []span

// span is a range of numbers with both of its ends.
type span struct{ first, last int32 }

// parseRanges reads what String writes.
func parseRanges(text string) (ranges, error) {
	var r ranges
	if text == "" {
		return r, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, two := strings.Cut(part, "-")
		if !two {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no range of numbers", part)
		}
		last, err := strconv.ParseInt(to, 10, 32)
		if err != nil || first < 1 || last < first || len(r) > 0 && int32(first) <= r[len(r)-1].last {
			return nil, fmt.Errorf("%q is no range of numbers", part)
		}
		r = append(r, span{int32(first), int32(last)})
	}
	return r, nil
}

// String returns the ranges, for example 1-40,43.
func (r ranges) String() string {
	parts := make([]string, 0, len(r))
	for _, s := range r {
		part := strconv.Itoa(int(s.first))
		if s.last > s.first {
			part += "-" + strconv.Itoa(int(s.last))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// has says whether a number is in the set.
func (r ranges) has(n int32) bool {
	i, found := r.find(n)
	return found || i > 0 && n <= r[i-1].last
}

// find is the index of the range that begins with a number, or where it would be.
func (r ranges) find(n int32) (int, bool) {
	return slices.BinarySearchFunc(r, n, func(s span, n int32) int { return int(s.first) - int(n) })
}

// add returns the set with a number. r is not to be used any more.
func (r ranges) add(n int32) ranges {
	if r.has(n) {
		return r
	}
	i, _ := r.find(n)
	joins, follows := i > 0 && r[i-1].last == n-1, i < len(r) && r[i].first == n+1
	switch {
	case joins && follows:
		r[i-1].last = r[i].last
		return slices.Delete(r, i, i+1)
	case joins:
		r[i-1].last = n
	case follows:
		r[i].first = n
	default:
		return slices.Insert(r, i, span{n, n})
	}
	return r
}

// count is how many numbers are in the set.
func (r ranges) count() int32 {
	n := int32(0)
	for _, s := range r {
		n += s.last - s.first + 1
	}
	return n
}
