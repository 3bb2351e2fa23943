// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"math/rand/v2"
	"testing"
)

// Numbers that are added in any order make the ranges of a set.
func TestRangesAreASetOfNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var r ranges
		set := map[int32]bool{}
		for range rng.IntN(60) {
			n := int32(1 + rng.IntN(40))
			r, set[n] = r.add(n), true
			again, err := parseRanges(r.String())
			if err != nil || again.String() != r.String() || int(r.count()) != len(set) {
				t.Fatalf("%q has %d numbers of %d, and is read as %q: %v", r, r.count(), len(set), again, err)
			}
		}
		for n := int32(0); n < 45; n++ {
			if r.has(n) != set[n] {
				t.Fatalf("%q has %d: %t", r, n, r.has(n))
			}
		}
	}
	for _, text := range []string{"0", "a", "3-2", "1-", "5,4", "1-3,3", "1,,2"} {
		if r, err := parseRanges(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}
