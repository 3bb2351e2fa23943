// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin"
)

func TestConditionText(t *testing.T) {
	attributes := map[string]string{"archive": "Failing"}
	for source, want := range map[string]string{
		`attributes['archive']`:                            "Failing",
		`'gap' in attributes ? attributes['gap'] : ''`:     "",
		`role + ': ' + attributes['archive'].lowerAscii()`: "primary: failing",
	} {
		if got, err := plugin.ConditionText(source, "primary", attributes); err != nil || got != want {
			t.Errorf("%s gives %q, %v", source, got, err)
		}
	}
	for _, source := range []string{`attributes['gap']`, `1 + 1`, `nonsense`} {
		if got, err := plugin.ConditionText(source, "primary", attributes); err == nil {
			t.Errorf("%s gives %q", source, got)
		}
	}
	for text, want := range map[string]bool{"ArchivingFails": true, "": false, "two words": false, "1st": false} {
		if plugin.IsReason(text) != want {
			t.Errorf("%q is taken for a reason: %v", text, !want)
		}
	}
}
