// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"testing"
)

// A value is what the definition lets through, too: text or a whole number.
func TestParameterValues(t *testing.T) {
	for text, want := range map[string]string{`"0.5"`: "0.5", `""`: "", "16": "16", "-1": "-1",
		"9223372036854775807": "9223372036854775807"} {
		var got ParameterValue
		if err := json.Unmarshal([]byte(text), &got); err != nil || string(got) != want {
			t.Errorf("%s is read as %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"0.5", "1e3", "true", "[1]", "{}", "9223372036854775808"} {
		var got ParameterValue
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %q; want an error", text, got)
		}
	}
}
