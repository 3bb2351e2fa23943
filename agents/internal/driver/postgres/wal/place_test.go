// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// After an upgrade the log has a folder of its own, and after a restore; data of neither has none.
func TestPlace(t *testing.T) {
	const given = "0123456789abcdef"
	for name, tc := range map[string]struct{ upgrade, restore, place, says string }{
		"neither":                    {},
		"upgraded":                   {"state=Upgraded\nsystem=74\narchive=74\nreplaces=73 \n", "", "74", ""},
		"committed":                  {"state=Committed\nsystem=74\narchive=74\nreplaces=73 \n", "", "74", ""},
		"rolled back":                {"state=RolledBack\nsystem=73\narchive=\nreplaces=74 \n", "", "", ""},
		"back to upgraded":           {"state=RolledBack\nsystem=73\narchive=73\nreplaces=74 \n", "", "73", ""},
		"no number":                  {"archive=../elsewhere\n", "", "", "is no number of a system"},
		"restored":                   {"", given + "\n", given, ""},
		"restored, rolled back":      {"state=RolledBack\nsystem=73\narchive=\nreplaces=74 \n", given, given, ""},
		"restored, upgraded":         {"state=Upgraded\nsystem=74\narchive=74\nreplaces=73 \n", given, "74", ""},
		"restored to somewhere else": {"", "../elsewhere", "", "is none of the numbers that a restore gives"},
	} {
		folder := t.TempDir()
		for file, text := range map[string]string{"zeroinfra.upgrade": tc.upgrade, ArchiveFile: tc.restore} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		place, err := Data(folder).Place()
		if place != tc.place || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %q, %v; want %q, %q", name, place, err, tc.place, tc.says)
		}
	}
}

// What a backup says of its place leads nowhere else.
func TestIsPlace(t *testing.T) {
	for text, want := range map[string]bool{"": true, "7412345678901234567": true, "0123456789abcdef": true,
		"../shop": false, "0123456789ABCDEF": false, "shop": false, "74\n": false} {
		if got := IsPlace(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
