// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	digits := strings.Repeat("0a", 32)
	for text, want := range map[string][2]bool{
		digits: {true, false}, "sha256:" + digits: {false, true},
		"": {}, digits + "0": {}, digits[1:]: {}, strings.ToUpper(digits): {}, digits + "\n": {}, "sha256:": {},
		"sha512:" + digits: {}, "sha256:" + digits + "\n": {},
	} {
		if got := [2]bool{IsSHA256(text), IsDigest(text)}; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
