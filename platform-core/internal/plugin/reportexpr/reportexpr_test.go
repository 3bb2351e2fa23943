// SPDX-License-Identifier: Apache-2.0

package reportexpr_test

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/reportexpr"
)

func TestText(t *testing.T) {
	attributes := map[string]string{"archive": "Failing"}
	for source, want := range map[string]string{
		`attributes['archive']`:                            "Failing",
		`'gap' in attributes ? attributes['gap'] : ''`:     "",
		`role + ': ' + attributes['archive'].lowerAscii()`: "primary: failing",
	} {
		if got, err := reportexpr.Text(source, "primary", attributes); err != nil || got != want {
			t.Errorf("%s gives %q, %v", source, got, err)
		}
	}
	for _, source := range []string{`attributes['gap']`, `1 + 1`, `nonsense`} {
		if got, err := reportexpr.Text(source, "primary", attributes); err == nil {
			t.Errorf("%s gives %q", source, got)
		}
	}
}

func TestNumberAndTruth(t *testing.T) {
	attributes := map[string]string{"seen": "42"}
	for range 2 { // compiled, and out of the cache
		if got, err := reportexpr.Number("int(attributes['seen'])", "replica", attributes); err != nil || got != 42 {
			t.Errorf("the number is %d, %v", got, err)
		}
		if got, err := reportexpr.Truth("role == 'replica'", "replica", nil); err != nil || !got {
			t.Errorf("the truth is %t, %v", got, err)
		}
	}
	if _, err := reportexpr.Number("role", "replica", nil); err == nil ||
		!strings.Contains(err.Error(), "it must give a whole number") {
		t.Errorf("a role as a number: %v", err)
	}
	if _, err := reportexpr.Truth("role", "replica", nil); err == nil ||
		!strings.Contains(err.Error(), "it must give true or false") {
		t.Errorf("a role as a truth: %v", err)
	}
}
