// SPDX-License-Identifier: Apache-2.0

package lineform_test

import (
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/lineform"
)

func TestRulesAreWrittenAnew(t *testing.T) {
	for text, want := range map[string]string{
		"host all all all reject":                     "host all all all reject",
		"hostnossl shop app 10.0.0.0/8 scram-sha-256": `hostnossl "shop" "app" 10.0.0.0/8 scram-sha-256`,
		"hostssl shop,Reports,a-b app,+readers FD00:0::/8 cert": `hostssl "shop","Reports","a-b" "app",+"readers" ` +
			`fd00::/8 cert`,
		`host it's,a"b @file 10.1.2.3/32 reject`: `host "it's","a""b" "@file" 10.1.2.3/32 reject`,
		"host #shop all ::/0 scram-sha-256":      `host "#shop" all ::/0 scram-sha-256`,
		`host a\ all all reject`:                 `host "a\" all all reject`,
		"host " + strings.Repeat("a", 63) + " all 0.0.0.0/0 reject": `host "` + strings.Repeat("a", 63) +
			`" all 0.0.0.0/0 reject`,
	} {
		if got, err := lineform.PGHBA.Line(text); err != nil || got != want {
			t.Errorf("%q became %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                    "five words",
		"host all all reject":                                 "five words",
		"host all all all reject x=1":                         "five words",
		"host  all all all reject":                            "five words",
		"local all all all reject":                            "must be host, hostssl or hostnossl",
		"include all all all reject":                          "must be host, hostssl or hostnossl",
		"hostgssenc all all all reject":                       "must be host, hostssl or hostnossl",
		"host replication all all reject":                     "keyword",
		"host shop,all all all reject":                        "keyword",
		"host all sameuser all reject":                        "keyword",
		"host all +all all reject":                            "keyword",
		"host a,,b all all reject":                            "a name has 1 to 63 bytes",
		"host " + strings.Repeat("a", 64) + " all all reject": "a name has 1 to 63 bytes",
		"host all + all reject":                               "a name has 1 to 63 bytes",
		"host all /^a all reject":                             "cannot begin with a slash",
		"host a\nb all all reject":                            "control character",
		"host all a\x00 all reject":                           "control character",
		"host all all 10.0.0.0/33 reject":                     "length of its network",
		"host all all 10.0.0.0 reject":                        "length of its network",
		"host all all 10.0.0/8 reject":                        "length of its network",
		"host all all example.com reject":                     "length of its network",
		"host all all samenet reject":                         "length of its network",
		"host all all 10.0.0.1/8 reject":                      "write 10.0.0.0/8, or /32 for this address alone",
		"host all all fd00::1/64 reject":                      "write fd00::/64, or /128 for this address alone",
		"host all all all trust":                              "lets in whoever comes",
		"host all all all md5":                                "must be scram-sha-256, reject",
		"host all all all cert":                               "needs type hostssl",
		"hostssl all all all cert\nhost all all":              "five words",
	} {
		if got, err := lineform.PGHBA.Line(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q became %q, %v; want an error with %q", text, got, err, want)
		}
	}
	if _, err := lineform.Form("other").Line("x"); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("a line of no form: %v", err)
	}
}

// FuzzRules: whatever is written, the server reads one rule with the same names in it, or none is written.
func FuzzRules(f *testing.F) {
	for _, text := range []string{"host all all all reject", `hostssl a"b,c +d fd00::/8 cert`,
		"host a\tb c 10.0.0.0/8 reject", "host \" , all reject", "host a,#b @c all reject"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, err := lineform.PGHBA.Line(text)
		if err != nil {
			return
		}
		fields, ok := readHBA(line)
		words := strings.Split(text, " ")
		if !ok || len(fields) != 5 {
			t.Fatalf("%q became %q, which is no rule", text, line)
		}
		for _, i := range []int{1, 2} {
			if got := strings.Join(fields[i], ","); got != words[i] {
				t.Errorf("%q became %q, of which the server reads %q", text, line, got)
			}
		}
	})
}

// readHBA reads a line as the server does: fields at blanks, in each names at commas; in double quotes all is itself,
// and a doubled quote is one.
func readHBA(line string) (fields [][]string, ok bool) {
	var field []string
	var token []byte
	quoted, was := false, false
	end := func() { field, token = append(field, string(token)), nil }
	for _, c := range []byte(line) {
		blank := c == ' ' || c == '\t'
		switch {
		case c == '\n' || c == '\r' || !quoted && c == '#':
			return nil, false
		case !quoted && blank:
			end()
			fields, field = append(fields, field), nil
		case !quoted && c == ',':
			end()
		case c != '"' || was:
			token = append(token, c)
		}
		was = quoted && c == '"' && !was
		if c == '"' {
			quoted = !quoted
		}
	}
	end()
	return append(fields, field), !quoted
}
