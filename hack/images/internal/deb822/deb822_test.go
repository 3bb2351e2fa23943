// SPDX-License-Identifier: Apache-2.0

package deb822

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	text := "# a comment\nPackage: redis\nDescription: short\n long line\n .\nDepends: a,\n b\n\n\nPackage: valkey\n"
	stanzas, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(stanzas) != 2 {
		t.Fatalf("got %d paragraphs, want 2", len(stanzas))
	}
	if got := stanzas[0].Get("PACKAGE"); got != "redis" {
		t.Errorf("Package = %q", got)
	}
	if got := stanzas[0].Get("Description"); got != "short\n long line\n ." {
		t.Errorf("Description = %q", got)
	}
	if got := stanzas[0].Words("Depends"); len(got) != 2 || got[0] != "a," || got[1] != "b" {
		t.Errorf("Depends = %q", got)
	}
}

func TestParseRefusesWhatIsNotAField(t *testing.T) {
	for _, text := range []string{"Package redis\n", " continuation first\n"} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("Parse(%q) = %v, want an error that names line 1", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("A: b\n c\n\nD: e")
	f.Fuzz(func(t *testing.T, text string) {
		stanzas, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range stanzas {
			if len(s) == 0 {
				t.Fatalf("empty paragraph from %q", text)
			}
		}
	})
}
