// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// After an upgrade the log has a folder of its own, and data that was never upgraded has none.
func TestPlace(t *testing.T) {
	for name, tc := range map[string]struct{ text, place, says string }{
		"never upgraded":   {},
		"upgraded":         {"state=Upgraded\nsystem=74\narchive=74\nreplaces=73 \n", "74", ""},
		"committed":        {"state=Committed\nsystem=74\narchive=74\nreplaces=73 \n", "74", ""},
		"rolled back":      {"state=RolledBack\nsystem=73\narchive=\nreplaces=74 \n", "", ""},
		"back to upgraded": {"state=RolledBack\nsystem=73\narchive=73\nreplaces=74 \n", "73", ""},
		"no number":        {"archive=../elsewhere\n", "", "is no number of a system"},
	} {
		folder := t.TempDir()
		if tc.text != "" {
			if err := os.WriteFile(filepath.Join(folder, "zeroinfra.upgrade"), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		place, err := Data(folder).Place()
		if place != tc.place || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %q, %v; want %q, %q", name, place, err, tc.place, tc.says)
		}
	}
}
