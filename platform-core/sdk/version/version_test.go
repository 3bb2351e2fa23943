// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/version"
)

func TestVersionsAreComparedByTheirNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"8.4.9", "8.4.10", -1},
		{"0.10", "0.9", 1},
		{"1", "1.0", 0},
		{"", "1", -1},
		{"17-2", "17.10", -1},
		{"6.2.0+1", "6.2", 1},
		{"1.2-beta", "1.2", 0},
	} {
		if got := version.Compare(c.a, c.b); got != c.want {
			t.Errorf("%q and %q compare as %d, want %d", c.a, c.b, got, c.want)
		}
		if got := version.Compare(c.b, c.a); got != -c.want {
			t.Errorf("%q and %q compare as %d, want %d", c.b, c.a, got, -c.want)
		}
	}
}

func TestMajorIsBeforeTheFirstDot(t *testing.T) {
	for of, want := range map[string]string{"17.2": "17", "8": "8", "": ""} {
		if got := version.Major(of); got != want {
			t.Errorf("the major version of %q is %q, want %q", of, got, want)
		}
	}
}
