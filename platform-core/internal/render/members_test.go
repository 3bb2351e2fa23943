// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestTogether(t *testing.T) {
	for name, test := range map[string]struct{ a, b, want []int32 }{
		"fewer":           {[]int32{0}, []int32{0, 1, 2}, []int32{0, 1, 2}},
		"more":            {[]int32{0, 1, 2}, []int32{0}, []int32{0, 1, 2}},
		"others":          {[]int32{1, 3}, []int32{0, 2}, []int32{0, 1, 2, 3}},
		"with a hole":     {[]int32{0, 4}, []int32{0, 2}, []int32{0, 2, 4}},
		"none any more":   {nil, []int32{5}, []int32{5}},
		"none whatsoever": {nil, nil, nil},
	} {
		replicas, excluded := Together(test.a, test.b)
		if got := platformv1.OrdinalsOf(replicas, excluded); !slices.Equal(got, test.want) && len(got)+len(test.want) > 0 {
			t.Errorf("%s: %v and %v are %v, want %v", name, test.a, test.b, got, test.want)
		}
	}
}

// Two sets of ordinals are never told by the same words.
func TestMembersTellOrdinalsApart(t *testing.T) {
	seen := map[string]bool{}
	for replicas := range int32(4) {
		for _, excluded := range [][]int32{nil, {0}, {1}, {0, 1}, {7}} {
			words := Members(replicas, excluded)
			if seen[words] {
				t.Errorf("%d pods without %v are %q, as others", replicas, excluded, words)
			}
			seen[words] = true
		}
	}
}
