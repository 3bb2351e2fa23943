// SPDX-License-Identifier: Apache-2.0

package secretvalue_test

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/secretvalue"
)

func TestProblem(t *testing.T) {
	for value, want := range map[string]string{
		"":                        "",
		"hunter2":                 "",
		"two words":               "",
		"pässwörd€":               "",
		`p"w'\$#:;%`:              "",
		"hunter2\n":               "ends with a newline",
		"hunter2\r\n":             "ends with a newline",
		"hunter2\r":               "ends with a carriage return",
		"hunter2 ":                "ends with a space",
		"hunter2\u00a0":           "ends with the character U+00A0",
		"\thunter2":               "begins with a tab",
		"\ufeffhunter2":           "begins with a byte order mark",
		"hunter2\x00":             "ends with the character U+0000",
		"\n":                      "ends with a newline",
		"hun\nter2":               "contains a newline",
		"hun\x1bter2":             "contains the character U+001B",
		"hunter2\xff":             "is not UTF-8 text",
		"-----BEGIN CERTIFICATE-": "",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n":   "",
		"\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n": "",
	} {
		got := secretvalue.Problem("users", "app", []byte(value))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", value, got, want)
			continue
		}
		if got == "" {
			continue
		}
		if !strings.Contains(got, `key "app" of Secret "users"`) || !strings.Contains(got, "printf '%s'") {
			t.Errorf("%q: it does not say where and what to do: %q", value, got)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("%q: it tells the password: %q", value, got)
		}
	}
}
