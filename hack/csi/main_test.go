// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for text, args := range map[string][]string{
		"say which part":         nil,
		`there is no part "all"`: {"all"},
		"give --nodes":           {"controller", "--socket=/x", "--credentials=/y"},
		"give --registration":    {"node"},
		"driver's certificate":   {"controller", "--socket=/x", "--credentials=" + t.TempDir(), "--nodes=/z"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v gives %v, want %q", args, err, text)
		}
	}
}
