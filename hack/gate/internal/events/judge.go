// SPDX-License-Identifier: Apache-2.0

package events

import (
	"cmp"
	"slices"
)

// judge sorts tests by how they ended. A test that began and never ended, since its process did, failed.
func (f *found) judge() Results {
	var r Results
	told := map[string]bool{} // Packages with a test that failed.
	for k, o := range f.tests {
		if k.name == "" {
			continue
		}
		switch {
		case o.last == "skip" && o.failures == 0:
			r.Skipped++
		case o.last == "pass" && o.failures > 0:
			told[k.pkg] = true
			r.Flaky = append(r.Flaky, o.Test)
		case o.last == "pass":
			r.Passed = append(r.Passed, o.Test)
		default:
			told[k.pkg] = true
			o.keep()
			r.Failed = append(r.Failed, o.Test)
		}
	}
	for k, o := range f.tests {
		if k.name == "" && o.last == "fail" && !told[k.pkg] {
			r.Failed = append(r.Failed, o.Test)
		}
	}
	for _, tests := range [][]Test{r.Passed, r.Failed, r.Flaky} {
		slices.SortFunc(tests, func(a, b Test) int {
			return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name))
		})
	}
	return r
}

// Slowest returns the n tests that took longest, the longest first.
func Slowest(n int, results ...Results) []Test {
	var all []Test
	for _, r := range results {
		all = slices.Concat(all, r.Passed, r.Failed, r.Flaky)
	}
	slices.SortStableFunc(all, func(a, b Test) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all[:min(n, len(all))]
}
