// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	primary := Lineage{System: "7", Timeline: 3, End: 0x900, History: []Branch{{1, 0x300}, {2, 0x600}},
		Terms: Terms{2: 2, 3: 5}, Upgrade: ParseUpgrade("state=Upgraded\nsystem=7\nreplaces=5 6 \n")}
	for name, tc := range map[string]struct {
		own  Lineage
		want Verdict
		says string
	}{
		"as far as the primary": {Lineage{System: "7", Timeline: 3, End: 0x900, Terms: Terms{2: 2, 3: 5}}, Follows,
			""},
		"behind on the same timeline": {Lineage{System: "7", Timeline: 3, End: 0x700, Terms: Terms{2: 2, 3: 5}}, Follows,
			""},
		"at the point of departure":  {Lineage{System: "7", Timeline: 2, End: 0x600, Terms: Terms{2: 2}}, Follows, ""},
		"from before two promotions": {Lineage{System: "7", Timeline: 1, End: 0x200}, Follows, ""},
		"beyond the point of departure": {Lineage{System: "7", Timeline: 2, End: 0x601, Terms: Terms{2: 2}}, Rewinds,
			"up to 0/601, and the primary's diverged at 0/600"},
		"beyond the first one": {Lineage{System: "7", Timeline: 1, End: 0x301}, Rewinds, "at 0/300"},
		"ahead of the primary": {Lineage{System: "7", Timeline: 3, End: 0x901, Terms: Terms{2: 2, 3: 5}}, Rewinds,
			"at 0/900"},
		"replaced in an upgrade": {Lineage{System: "6", Timeline: 9, End: 0x900}, Copies,
			"replaced that of system 6"},
		"a timeline that the primary skips": {Lineage{System: "7", Timeline: 4, End: 0x100, Terms: Terms{4: 6}}, Rewinds,
			"timeline 4 is not in the history"},
		"a number that two have taken": {Lineage{System: "7", Timeline: 3, End: 0x700, Terms: Terms{2: 2, 3: 4}}, Copies,
			"began in term 4, and that of the primary in term 5"},
		"a number of an unknown term":  {Lineage{System: "7", Timeline: 2, End: 0x500}, Copies, "began in term 0"},
		"what it heard of and has not": {Lineage{System: "7", Timeline: 1, End: 0x300, Terms: Terms{2: 9}}, Follows, ""},
		"another initdb":               {Lineage{System: "8", Timeline: 1, End: 0x100}, Refused, "system 8"},
	} {
		got, why := Decide(tc.own, primary)
		if got != tc.want || !strings.Contains(why, tc.says) || (why == "") != (tc.says == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got, why, tc.want, tc.says)
		}
	}
}

func TestHistoryIsRead(t *testing.T) {
	branches, err := ParseHistory("1\t0/3000148\tno recovery target specified\n\n# a comment\n2\t1A/B0\tno recovery " +
		"target specified\n")
	if err != nil || len(branches) != 2 || branches[0] != (Branch{1, 0x3000148}) ||
		branches[1] != (Branch{2, 0x1A000000B0}) {
		t.Errorf("got %v, %v", branches, err)
	}
	if got := branches[1].End.String(); got != "1A/B0" {
		t.Errorf("a position is written as %s", got)
	}
	for _, broken := range []string{"1", "x\t0/1", "1\t0", "1\t0/1FFFFFFFF"} {
		if _, err := ParseHistory(broken); err == nil {
			t.Errorf("%q was taken for a history", broken)
		}
	}
}

func TestTermsAreRead(t *testing.T) {
	terms := ParseTerms("2 7\nnonsense\n4 11\n")
	if len(terms) != 2 || terms[2] != 7 || terms[4] != 11 || terms.String() != "2 7\n4 11\n" {
		t.Errorf("got %v, written as %q", terms, terms.String())
	}
}
